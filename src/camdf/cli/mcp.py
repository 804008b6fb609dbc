"""`camdf mcp`: one MCP server in front of all of a client's, and what to ask of it afterwards."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camdf._printing import visible
from camdf.cli.parser import add_json, print_json
from camdf.errors import UsageError, expect

if TYPE_CHECKING:
    from camdf.cli.mcp_clients import FileChange

PLACES = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Where the file is looked for in this folder unless it is named."""

EXTRA = "mcp"


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
        + ", ".join(f"{name} ({told})" for name, (_, told) in ACTIONS.items()),
    )
    parser.add_argument("--http", type=int, metavar="PORT", help="serve over HTTP on this port of this machine instead")
    parser.add_argument("--at-most", type=int, metavar="N", help="most tools of a list, the two of the search included")
    parser.add_argument("--first", type=int, default=8, metavar="N", help="tools loaded at the start (default: 8)")
    parser.add_argument(
        "--examples", type=Path, metavar="FILE", help="load what these requests need at the start (.jsonl)"
    )
    parser.add_argument(
        "--learn", choices=("on", "off"), default="on", help="keep a log of searches and calls (default: on)"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="how long a call may take (default: 300)")
    parser.add_argument("--accept", nargs="*", metavar="TOOL", help="with review: accept these tools, or all")
    parser.add_argument("--yes", action="store_true", help="with install and uninstall: do not ask")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    action, *words = options.words or [""]
    if action not in ACTIONS:
        action, words = "", options.words
    return ACTIONS[action][0](options, words) if action else _serve(options, words)


def _serve(options: argparse.Namespace, words: list[str]) -> int:
    path = _file(words)
    expect("fastmcp", EXTRA)
    if options.at_most is not None and options.at_most < 2:
        raise UsageError(f"--at-most must be at least 2, the tools of the search. Got {options.at_most} instead.")
    if options.first < 0 or options.seconds <= 0:
        raise UsageError("--first must not be negative, and --seconds must be positive.")
    os.environ.setdefault("FASTMCP_CHECK_FOR_UPDATES", "off")
    from camdf.datasets.examples import read_examples
    from camdf.gateway.config import read_servers
    from camdf.gateway.folder import Folder
    from camdf.gateway.server import Gateway

    folder = Folder.of(path, learn=options.learn == "on")
    folder.make()  # definitions that were accepted are kept there, so there is no gateway without it
    servers = read_servers(path)
    gateway = Gateway(
        servers,
        folder,
        at_most=options.at_most,
        first=options.first,
        examples=read_examples(options.examples) if options.examples else (),
        seconds=options.seconds,
        mode=None if options.http is None else "legacy",
    )
    quiet: dict[str, Any] = {"show_banner": False, "log_level": "ERROR"}
    signal.signal(signal.SIGTERM, _interrupt)  # so that its servers are ended, too, and the receipt is told
    behind = f"camdf: one MCP server in front of {', '.join(server.name for server in servers)},"
    if options.http is not None:
        print(f"{behind} at http://127.0.0.1:{options.http}/mcp.", file=sys.stderr)
    elif sys.stdin.isatty():  # somebody tries it
        print(f"{behind} waits for a client. To have yours start it: camdf mcp install CLIENT.", file=sys.stderr)
    with suppress(KeyboardInterrupt):
        if options.http is None:
            asyncio.run(gateway.server.run_stdio_async(**quiet))
        else:
            guarded = {"host_origin_protection": True, **quiet}  # no page of a browser reaches it by a name of its own
            asyncio.run(gateway.server.run_http_async(host="127.0.0.1", port=options.http, **guarded))
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _status(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.gateway.folder import STATUS, Folder

    status = Folder.of(_file(words)).read(STATUS)
    if options.json:
        print_json(status)
    elif not status:
        print("No gateway has run for this file yet.")
    else:
        print("\n".join(_status_lines(status)))
    return int(any(server["state"] != "up" for server in status.get("servers", {}).values()))


def _status_lines(status: dict[str, Any]) -> list[str]:
    lines = [] if _alive(status["pid"]) else ["The gateway does not run now. This is how it was at its end:"]
    for name, server in status["servers"].items():
        told = f", {server['restarts']} restarts" if server["restarts"] else ""
        left = f", {server['left out']} left out (too long or too many)" if server["left out"] else ""
        why = f": {server['error']}" if server.get("error") else ""
        lines.append(f"{name}: {server['state']}{why}, {server['tools']} tools{told}{left}")
    if held := status["held back"]:
        lines.append(f"Held back, because they changed: {', '.join(held)}. See: camdf mcp review")
    return lines


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _report(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.gateway.config import read_servers
    from camdf.gateway.folder import Folder
    from camdf.gateway.receipt import receipt

    path = _file(words)
    result = receipt(Folder.of(path).records(), [server.name for server in read_servers(path)])
    if options.json:
        print_json(vars(result))
        return 0
    if not result.connections:
        print("No client has listed the tools yet. Start one, and look again.")
        return 0
    print(f"Connections: {result.connections:,}. On average {result}.")
    print(f"Calls that the search learned from: {result.learned:,}.")
    width = max(map(len, result.servers))
    for name, use in sorted(result.servers.items(), key=lambda item: -item[1]["calls"]):
        told = f"calls: {use['calls']:,}, of loaded tools: {use['loaded']:,}, errors: {use['errors']:,}"
        print(f"  {name:<{width}}  {told if use['calls'] else 'never called: does it earn its place?'}")
    return 0


def _review(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.gateway.definitions import Definitions
    from camdf.gateway.folder import Folder

    definitions = Definitions(Folder.of(_file(words)))
    waiting = definitions.pending()
    if options.accept is not None:
        wanted = options.accept if options.accept not in ([], ["all"]) else list(waiting)
        if unknown := sorted(set(wanted) - waiting.keys()):
            raise UsageError(f"No tool waits by the name of {', '.join(unknown)}. These do: {', '.join(waiting)}.")
        definitions.accept(wanted)
        print(f"Accepted {len(wanted)}. A gateway that runs uses them from now on.")
        return 0
    for name, diff in waiting.items():
        print(f"{name}:\n{diff}\n")
    print("Accept them with --accept all, or by name." if waiting else "No tool waits.")
    return int(bool(waiting))


def _login(options: argparse.Namespace, words: list[str]) -> int:
    if not words:
        raise UsageError("Name a server of the file: camdf mcp login NAME FILE.")
    expect("fastmcp", EXTRA)
    from camdf.gateway.config import read_servers
    from camdf.gateway.folder import state_home
    from camdf.gateway.sign_in import sign_in

    servers = {server.name: server.entry for server in read_servers(_file(words[1:]))}
    url = servers.get(words[0], {}).get("url")
    if url is None:
        raise UsageError(f"{words[0]!r} must be a server with a URL. The file has {', '.join(servers)}.")
    try:
        count = asyncio.run(sign_in(url, state_home() / "sign-ins"))
    except Exception as error:
        raise UsageError(f"The sign-in to {words[0]} did not work: {error}. Try again.") from None
    print(f"Signed in to {words[0]}, which has {count} tools. Its tokens are kept for the gateway.")
    return 0


def _install(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.cli.mcp_clients import Installation

    installation = Installation.of(_client(words), Path.cwd())
    return _change(options, installation.to_install, installation.install)


def _uninstall(options: argparse.Namespace, words: list[str]) -> int:
    from camdf.cli.mcp_clients import Installation

    installation = Installation.of(_client(words), Path.cwd())
    return _change(options, installation.to_uninstall, installation.uninstall)


def _change(
    options: argparse.Namespace, planned: Callable[[], FileChange], written: Callable[[FileChange], bool]
) -> int:
    """Show a change of a client's file, ask, and write it; where the file is another one by then, the same again."""
    while True:
        change = planned()
        print(change.diff())
        if not options.yes and not _agrees():
            print("Nothing was changed.")
            return 0
        if written(change):
            print(visible(change.told))
            return 0
        print(visible(f"{change.path} has changed since it was shown, and was left as it is. This is the change now:"))


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nothing was changed, for nobody can be asked here. Say --yes to change it.")
    return input("Change it? [y/N] ").strip().lower() in ("y", "yes")


def _client(words: list[str]) -> str:
    from camdf.cli.mcp_clients import CLIENTS

    if len(words) != 1 or words[0] not in CLIENTS:
        raise UsageError(f"Name one client: {', '.join(CLIENTS)}. Got {' '.join(words) or 'none'} instead.")
    return words[0]


def _file(words: list[str]) -> Path:
    if len(words) > 1:
        raise UsageError(f"Name one file of servers. Got {' '.join(words)} instead; actions: {', '.join(ACTIONS)}.")
    path = Path(words[0]) if words else next((Path(place) for place in PLACES if Path(place).is_file()), None)
    if path is None:
        raise UsageError(f"Name a client's file of servers: this folder has none of {', '.join(PLACES)}.")
    if not path.is_file():
        raise UsageError(f"There is no file {path}. Name a client's file of servers, or one of {', '.join(ACTIONS)}.")
    return path


ACTIONS: dict[str, tuple[Callable[[argparse.Namespace, list[str]], int], str]] = {
    "status": (_status, "which servers answer"),
    "report": (_report, "what was saved, searched and called, by server"),
    "review": (_review, "tools that are new or changed, and with --accept let them be used"),
    "login": (_login, "NAME FILE: sign in to a server with a browser"),
    "install": (_install, "CLIENT: put the gateway into the file of claude-code, cursor or vscode"),
    "uninstall": (_uninstall, "CLIENT: put the client's file back as it was"),
}
"""What can stand before the file, and what it shows or does."""
