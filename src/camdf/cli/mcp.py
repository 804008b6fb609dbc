"""`camdf mcp`: one MCP server in front of all of a client's, and what to ask of it afterwards."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf.cli.parser import add_json, print_json
from camdf.cli.tool_names import add_renamed, chosen_renames
from camdf.errors import DataError, UsageError, expect
from camdf.runtime.visible import visible, visible_lines

if TYPE_CHECKING:
    from camdf.cli.client_file import ClientFile
    from camdf.cli.servers_file import ServersFile
    from camdf.integrations.gateway.folder import Folder
    from camdf.integrations.gateway.receipt import Receipt
    from camdf.integrations.gateway.server import Gateway

PLACES = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Where the file is looked for in this folder unless it is named."""

EXTRA = "mcp"

TOKEN = "CAMDF_TOKEN"
"""The environment variable with the token that a gateway over HTTP asks for."""

SHORTEST_TOKEN = 16

NOTE = 1_500
MOST_USED = 5
"""How many tools a report names."""

NOTES = (200, 10_000)
"""How long a note on a prompt is at most, unless somebody says otherwise, and what may be said."""


def add_commands(commands: Any) -> None:
    """mcp."""
    parser = commands.add_parser(
        "mcp",
        help="put one MCP server in front of all that a client has",
        example="camdf mcp mcp.json",
        codes={1: "status: a server does not answer; review: tools wait"},
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[ACTION] FILE",
        help="the client's file of servers, served over stdio; or first one of: "
        + ", ".join(f"{name} ({does})" for name, (_, does) in ACTIONS.items()),
    )
    parser.add_argument("--http", type=int, metavar="PORT", help="serve over HTTP on this port of this machine instead")
    parser.add_argument("--no-token", action="store_true", help=f"with --http: ask for no token ({TOKEN})")
    parser.add_argument(
        "--allow-origin", action="append", default=[], metavar="URL", help="with --http: pages from there may call"
    )
    parser.add_argument("--at-most", type=int, metavar="N", help="most tools of a list, the two of the search included")
    parser.add_argument("--first", type=int, default=8, metavar="N", help="tools loaded at the start (default: 8)")
    parser.add_argument(
        "--examples", type=Path, metavar="FILE", help="load what these requests need at the start (.jsonl)"
    )
    add_renamed(parser)
    parser.add_argument(
        "--learn", choices=("on", "off"), default="on", help="keep a log of searches and calls (default: on)"
    )
    parser.add_argument(
        "--wait", type=float, default=3.0, metavar="SECONDS", help="how long a list waits for servers (default: 3)"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="how long a call may take (default: 300)")
    parser.add_argument(
        "--accept", nargs="+", metavar="NAME@DIGEST", help="with review: accept what it shows, as it shows it"
    )
    parser.add_argument(
        "--hook",
        type=int,
        nargs="?",
        const=NOTE,
        default=0,
        metavar="CHARACTERS",
        help=f"with install: tell the model at each prompt of tools, in at most so many characters (default: {NOTE})",
    )
    parser.add_argument("--yes", action="store_true", help="with install and uninstall: do not ask")
    add_json(parser)
    parser.set_defaults(run=_run_action)


def _run_action(options: argparse.Namespace) -> int:
    if not options.words or options.words[0] not in ACTIONS:
        return _serve_gateway(options, options.words)
    name, *words = options.words
    action, _ = ACTIONS[name]
    return action(options, words)


def _serve_gateway(options: argparse.Namespace, words: list[str]) -> int:
    path = _file_of_servers(words)
    expect("fastmcp", EXTRA)
    if options.at_most is not None and options.at_most < 2:
        raise UsageError(f"--at-most must be at least 2, the tools of the search. Got {options.at_most} instead.")
    if options.first < 0 or options.wait < 0 or options.seconds <= 0:
        raise UsageError("--first and --wait must not be negative, and --seconds must be positive.")
    _check_note(options)
    os.environ.setdefault("FASTMCP_CHECK_FOR_UPDATES", "off")
    from camdf.datasets.examples import read_examples, renamed_examples
    from camdf.integrations.gateway.config import read_servers
    from camdf.integrations.gateway.folder import Folder
    from camdf.integrations.gateway.permission import read_permission
    from camdf.integrations.gateway.server import Gateway

    token = _token_over_http(options)
    folder = Folder.of_client_file(path, learn=options.learn == "on")
    folder.make()  # definitions that were accepted are kept there, so there is no gateway without it
    servers = read_servers(path)
    examples = read_examples(options.examples) if options.examples else []
    examples = renamed_examples(examples, chosen_renames(options))
    gateway = Gateway(
        servers,
        folder,
        at_most=options.at_most,
        first=options.first,
        examples=examples,
        permission=read_permission(path),
        seconds=options.seconds,
        mode=None if options.http is None else "legacy",
        note=options.hook,
        wait=options.wait,
    )
    quiet: dict[str, Any] = {"show_banner": False, "log_level": "ERROR"}
    behind = f"camdf: one MCP server in front of {visible(', '.join(server.name for server in servers))},"
    for server in servers:
        if server.problem:
            print(visible(f"camdf: {server.name} is left out: {server.problem}."), file=sys.stderr)
    if options.http is None:
        if sys.stdin.isatty():  # somebody tries it
            print(f"{behind} waits for a client. To have yours start it: camdf mcp install CLIENT.", file=sys.stderr)
        serving = gateway.server.run_stdio_async(**quiet)
    else:
        from camdf.integrations.gateway.guard import guarded

        print(f"{behind} at http://127.0.0.1:{options.http}/mcp.", file=sys.stderr)
        guard = guarded(token, options.allow_origin)
        serving = gateway.server.run_http_async(host="127.0.0.1", port=options.http, **guard, **quiet)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_until_told(gateway, serving))
    return 0


def _token_over_http(options: argparse.Namespace) -> str:
    """What clients must send over HTTP; "" where there is nothing to send."""
    if options.http is None or options.no_token:
        return ""
    token = os.environ.get(TOKEN, "")
    if len(token) < SHORTEST_TOKEN:
        raise UsageError(
            f"--http asks for a token, for any program of this machine can call it: put one of {SHORTEST_TOKEN} "
            f"characters or more into {TOKEN}. Got {len(token)} characters. To ask for none: --no-token."
        )
    return token


async def _serve_until_told(gateway: Gateway, serving: Coroutine[Any, Any, None]) -> None:
    """Serve until the client goes or the process is told to end; in both cases end the servers, and tell the receipt.

    Over stdio a thread waits for the client's next line, and nothing can call it off. So the process ends without it.
    """
    told_to_end = asyncio.Event()
    served = asyncio.ensure_future(serving)
    waiting = asyncio.ensure_future(told_to_end.wait())
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(number, told_to_end.set)
    await asyncio.wait((served, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if served.done():
        served.result()
        return
    await gateway.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _show_status(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.integrations.gateway.folder import STATUS, Folder
    from camdf.integrations.gateway.receipt import WORKING

    folder = Folder.of_client_file(_served_file(words))
    status = folder.read(STATUS)
    if options.json:
        print_json(status)
    elif not status:
        print("No gateway has run for this file yet.")
    else:
        print("\n".join(map(visible, _status_lines(status))))
    for line in _definitions_problem(folder):
        print(line)
    return int(any(server["state"] not in WORKING for server in status.get("servers", {}).values()))


def _status_lines(status: dict[str, Any]) -> list[str]:
    from camdf.integrations.gateway.folder import is_running
    from camdf.integrations.gateway.receipt import out_of_use

    lines: list[str] = []
    if not is_running(status["pid"]):
        lines.append("The gateway does not run now. This is how it was at its end:")
    for name, server in status["servers"].items():
        restarts = f", {server['restarts']} restarts" if server["restarts"] else ""
        lines.append(f"{name}: {server['state']}, {server['tools']} tools{restarts}")
        lines += [f"  {line}" for line in out_of_use(name, server)]
    if held := status["held back"]:
        lines.append(f"Held back, because they changed: {', '.join(held)}. See: camdf mcp review")
    return lines


def _definitions_problem(folder: Folder) -> list[str]:
    """What became of definitions that could not be read, and what to do."""
    from camdf.integrations.gateway.definitions import Definitions

    if not folder.path.is_dir():
        return []
    try:
        copy = Definitions(folder).copy
    except OSError as error:
        return [visible(f"The accepted definitions cannot be read ({error}), so all tools are held back. Mend it.")]
    if not copy:
        return []
    return [
        visible(
            f"The accepted definitions could not be read, and are in {copy}. So what servers listed first since then "
            "is held back until you accept it: camdf mcp review. Or put the file back as definitions.json."
        )
    ]


def _show_report(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.integrations.gateway.config import read_servers
    from camdf.integrations.gateway.folder import STATUS, Folder
    from camdf.integrations.gateway.receipt import receipt

    path = _served_file(words)
    folder = Folder.of_client_file(path)
    result = receipt(folder.records(), [server.name for server in read_servers(path)])
    if options.json:
        dollars = {"dollars_saved": result.dollars_saved, "dollars_searched": result.dollars_searched}
        print_json({**vars(result), **dollars})
        return 0
    if not result.connections:
        print("No client has listed the tools yet. Start one, and look again.")
        return 0
    for line in _report_lines(result, folder.read(STATUS).get("servers", {})):
        print(line)
    return 0


def _report_lines(result: Receipt, status: Mapping[str, Any]) -> list[str]:
    from camdf.integrations.gateway.receipt import never_called, out_of_use
    from camdf.integrations.gateway.working_set import PRICES

    prices = f"${PRICES.uncached:.2f} and ${PRICES.cached:.2f} for a million tokens"
    lines = [
        f"Connections: {result.connections:,}. On average {result}.",
        f"That is ${result.dollars_saved:.2f} saved in all, and ${result.dollars_searched:.2f} spent on searches, at "
        f"{prices}, {PRICES.turns:.0f} model calls a connection.",
        f"Calls that the search learned from: {result.learned:,}.",
    ]
    prompts = result.prompts
    if prompts["prompts"]:
        lines.append(
            f"Prompts: {prompts['prompts']:,}, with a note: {prompts['noted']:,}. Tools in notes: "
            f"{prompts['named']:,}, called after it: {prompts['used']:,}."
        )
    width = max((len(visible(name)) for name in result.servers), default=0)
    for name, use in sorted(result.servers.items(), key=lambda item: -item[1]["calls"]):
        told = out_of_use(name, status[name]) if name in status else []
        if use["calls"]:
            told = [f"calls: {use['calls']:,}, of loaded tools: {use['loaded']:,}, errors: {use['errors']:,}", *told]
        used = " ".join(told) or never_called(use)
        lines.append(f"  {visible(name):<{width}}  {used}")
    most = [f"{visible(name)} {calls:,}" for name, calls in result.tools.most_common(MOST_USED)]
    if most:
        lines.append(f"Tools that were called most: {', '.join(most)}.")
    return lines


def _review_tools(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.integrations.gateway.definitions import Definitions, seal_of_all
    from camdf.integrations.gateway.folder import Folder

    path = _served_file(words)
    folder = Folder.of_client_file(path)
    definitions = Definitions(folder)
    try:
        if options.accept is not None:
            print(f"Accepted {definitions.accept(options.accept)}. A gateway that runs uses them from now on.")
            return 0
        waiting = definitions.pending()
    except OSError as error:
        raise UsageError(f"The definitions cannot be read: {error}. All tools are held back until they can.") from None
    for line in _definitions_problem(folder):
        print(f"{line}\n")
    for tool in waiting:
        print(f"{visible(tool.name)}:\n{visible_lines(tool.diff)}\nAccept it as it is here: {visible(tool.seal)}\n")
    if waiting:
        every = seal_of_all(tool.seal for tool in waiting)
        print(f"To accept one or several: camdf mcp review {path} --accept NAME@DIGEST ...")
        print(f"All as they are here: camdf mcp review {path} --accept {every}")
    else:
        print("No tool waits.")
    return int(bool(waiting))


def _sign_in(options: argparse.Namespace, words: list[str]) -> int:
    if not words:
        raise UsageError("Name a server of the file: camdf mcp login NAME FILE.")
    expect("fastmcp", EXTRA)
    from camdf.integrations.gateway.config import read_servers
    from camdf.integrations.gateway.folder import state_home
    from camdf.integrations.gateway.sign_in import sign_in

    servers = {server.name: server.entry for server in read_servers(_served_file(words[1:]))}
    url = servers.get(words[0], {}).get("url")
    if url is None:
        raise UsageError(f"{words[0]!r} must be a server with a URL. The file has {visible(', '.join(servers))}.")
    try:
        count = asyncio.run(sign_in(url, state_home() / "sign-ins"))
    except Exception as error:
        raise UsageError(f"The sign-in to {words[0]} did not work: {visible(error, 200)}. Try again.") from None
    print(f"Signed in to {words[0]}, which has {count} tools. Its tokens are kept for the gateway.")
    return 0


def _check_note(options: argparse.Namespace) -> None:
    least, most = NOTES
    if options.hook and not least <= options.hook <= most:
        raise UsageError(f"--hook must be {least} to {most:,} characters. Got {options.hook} instead.")


def _install_gateway(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.cli.mcp_clients import found_installation
    from camdf.cli.mcp_hooks import HookFile

    _check_note(options)
    servers = found_installation(_named_client(words), Path.cwd(), options.hook)
    hook = HookFile(servers) if options.hook else None
    if hook is None or not servers.takes_prompts():
        _show_and_write(options, servers, install=True)
    if hook is not None and servers.takes_prompts():
        hook.clear_leftovers()
        _show_and_write(options, hook, install=True)
    return 0


def _uninstall_gateway(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.cli.mcp_clients import found_installation

    servers = found_installation(_named_client(words), Path.cwd())
    hook = _installed_hook(servers)
    if hook is not None:
        _show_and_write(options, hook, install=False)
    _show_and_write(options, servers, install=False)
    return 0


def _installed_hook(servers: ServersFile) -> ClientFile | None:
    from camdf.cli.mcp_hooks import HookFile

    try:
        hook = HookFile(servers)
    except UsageError:  # a client without hooks
        return None
    if hook.is_installed:
        hook.clear_leftovers()
    return hook if hook.is_installed else None


def _show_and_write(options: argparse.Namespace, file: ClientFile, *, install: bool) -> None:
    """Show a change of a client's file, ask, and write it; where the file is another one by then, the same again."""
    while True:
        planned = file.to_uninstall
        written = file.uninstall
        if install:
            planned = file.to_install
            written = file.install
        change = planned()
        print(change.diff())
        if not options.yes and not _agrees():
            print("Nothing was changed.")
            return
        if written(change):
            print(visible(change.told))
            return
        print(visible(f"{change.path} has changed since it was shown, and was left as it is. This is the change now:"))


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nothing was changed, for nobody can be asked here. Say --yes to change it.")
    return input("Change it? [y/N] ").strip().lower() in ("y", "yes")


def _named_client(words: list[str]) -> str:
    from camdf.cli.mcp_clients import CLIENTS

    if len(words) != 1 or words[0] not in CLIENTS:
        raise UsageError(f"Name one client: {', '.join(CLIENTS)}. Got {' '.join(words) or 'none'} instead.")
    return words[0]


def _served_file(words: list[str]) -> Path:
    """The file of the servers that a gateway has: by the client, by the file that starts it, or by their own."""
    from camdf.cli.mcp_clients import CLIENTS
    from camdf.integrations.gateway.config import served_file

    named = words[0] if len(words) == 1 and words[0] in CLIENTS else ""
    if not named and (words or _file_here() is not None):
        return served_file(_file_of_servers(words))
    installed = _installed_files([named] if named else CLIENTS)
    if len(installed) > 1:
        raise UsageError(f"Name one of the files that start the gateway: {', '.join(map(str, installed.values()))}.")
    if named and not installed:
        raise UsageError(f"The gateway is in no file of {named} here. To put it there: camdf mcp install {named}.")
    return next(iter(installed), None) or _file_of_servers(words)


def _installed_files(clients: Iterable[str]) -> dict[Path, Path]:
    """The files of servers that gateways of these clients have, each with the client's file that starts it."""
    from camdf.cli.mcp_clients import places_of
    from camdf.integrations.gateway.config import served_file

    installed: dict[Path, Path] = {}
    for path in (place for client in clients for place in places_of(client)):
        with suppress(OSError, DataError):
            if (served := served_file(path)) != path:
                installed.setdefault(served, path)
    return installed


def _file_of_servers(words: list[str]) -> Path:
    if len(words) > 1:
        raise UsageError(f"Name one file of servers. Got {' '.join(words)} instead; actions: {', '.join(ACTIONS)}.")
    path = Path(words[0]) if words else _file_here()
    if path is None:
        raise UsageError(f"Name a client's file of servers: this folder has none of {', '.join(PLACES)}.")
    if not path.is_file():
        raise UsageError(f"There is no file {path}. Name a client's file of servers, or one of {', '.join(ACTIONS)}.")
    return path


def _file_here() -> Path | None:
    """The first file of servers in this folder."""
    return next((Path(place) for place in PLACES if Path(place).is_file()), None)


ACTIONS: dict[str, tuple[Callable[[argparse.Namespace, list[str]], int], str]] = {
    "status": (_show_status, "which servers answer"),
    "report": (_show_report, "what was saved, searched and called, by server"),
    "review": (_review_tools, "tools that are new or changed, and with --accept let them be used"),
    "login": (_sign_in, "NAME FILE: sign in to a server with a browser"),
    "install": (
        _install_gateway,
        "CLIENT: put the gateway into its file: claude-code, claude-desktop, codex, cursor or vscode",
    ),
    "uninstall": (_uninstall_gateway, "CLIENT: put the client's file back as it was"),
}
"""What can stand before the file, and what it shows or does."""
