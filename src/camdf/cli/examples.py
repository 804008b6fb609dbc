"""Commands on examples: examples."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from camdf.cli.parser import add_json, check_output, print_json
from camdf.cli.tool_names import add_renamed, chosen_renames
from camdf.cli.tools import TOOLS_FILE, tools_in_file
from camdf.datasets.examples import Example, read_examples
from camdf.datasets.tables import columns_at_a_glance, read_table
from camdf.errors import UsageError
from camdf.examples import Check, ExamplesFile, Prompt, Wanted, check_examples, named_tools, own_examples, prompts
from camdf.examples.asking import TASK, cost
from camdf.examples.text_logs import read_text_log
from camdf.policies.renames import Renames
from camdf.runtime.progress import shown
from camdf.scorers.endpoint import completion
from camdf.tools import Tool

INCOMPLETE = 1
RETRIES = 3
LISTED = 8
"""How many lines of a kind are printed; --json has all."""

ORIGINS = ("made up", "own", "logged")

NO_FILE = Path()
"""Where a prompt is printed for all tools, whatever has been written."""

EVERY = "*"
EXAMPLE_FIELDS = {"text", "needed", "or", "lang", "kind", "origin"}


def add_commands(commands: Any) -> None:
    """examples."""
    usual = Wanted()
    parser = commands.add(_examples, codes={INCOMPLETE: "some tools lack examples, and are named"})
    parser.add_argument("tools", type=Path, nargs="?", help=TOOLS_FILE)
    parser.add_argument("-o", "--output", type=Path, help="where to write the examples (.jsonl); what is there is kept")
    asked = parser.add_argument_group("who writes them")
    way = asked.add_mutually_exclusive_group()
    way.add_argument("--endpoint", metavar="URL", help="an OpenAI-compatible endpoint, up to /v1")
    asked.add_argument("--model", help="what the endpoint calls the model")
    asked.add_argument("--key-variable", metavar="NAME", help="the environment variable that holds the API key")
    asked.add_argument("--no-schema", action="store_true", help="send no JSON schema, for endpoints that know none")
    asked.add_argument("--max-tokens", type=int, help="the most that one answer may have (default: the endpoint's)")
    asked.add_argument("--timeout", type=float, default=300.0, help="seconds for one answer (%(default)g)")
    way.add_argument("--print-prompt", action="store_true", help="print one prompt to paste into any assistant")
    way.add_argument("--from", dest="answer", type=Path, metavar="FILE", help="read what an assistant answered to it")
    asked.add_argument("--own", type=Path, action="append", metavar="FILE", help="join your own sentences to them")
    asked.add_argument("--prices", metavar="IN,OUT", help="dollars for a million tokens read and written, as 3,15")
    asked.add_argument("--dry-run", action="store_true", help="say what it would cost, and ask nothing")
    wanted = parser.add_argument_group("what is written")
    wanted.add_argument("--per-tool", type=int, default=usual.per_tool, help="requests for each tool (%(default)s)")
    wanted.add_argument("--languages", help="their languages, as en,de,ja (default: en)")
    wanted.add_argument(
        "--together", type=int, default=usual.together, help="for each tool, requests that need others (%(default)s)"
    )
    wanted.add_argument("--none", type=int, default=usual.none, help="requests that need no tool, in all (%(default)s)")
    wanted.add_argument(
        "--trusted", metavar="SERVERS", help=f"servers that a request may need together, as mail,files; {EVERY}: all"
    )
    wanted.add_argument("--server", help="write for the tools of this server alone")
    checked = parser.add_argument_group("checking")
    checked.add_argument("--check", type=Path, metavar="FILE", help="check these examples, and write nothing")
    checked.add_argument("--tools", dest="listed", type=Path, metavar="FILE", help="with --check: the tools")
    add_renamed(parser)
    add_json(parser)
    parser.set_defaults(resumes=True)


def _examples(options: argparse.Namespace) -> int:
    """Write requests for each tool by a language model; check them.

    camdf examples tools.json -o examples.jsonl --endpoint http://localhost:8000/v1 --model any
    """
    place = options.tools or options.listed
    if place is None:
        raise UsageError("Name the file of tools: camdf examples tools.json ..., or --check FILE --tools tools.json.")
    if options.check is not None:
        return _check_examples(options, named_tools(tools_in_file(place)))
    if options.output is None and not options.print_prompt:
        raise UsageError("Name the file to write: -o examples.jsonl. What is there is kept.")
    if options.output is not None:
        check_output(options.output, (".jsonl",))
    if not (options.endpoint or options.answer or options.own or options.print_prompt or options.dry_run):
        raise UsageError("Say who writes: --endpoint and --model, --print-prompt and then --from, or --own.")
    if options.endpoint is not None and options.model is None:
        raise UsageError("Say which model of the endpoint writes: --model.")
    dollars = _dollars_for_tokens(options.prices)
    wanted = _wanted(options)
    tools = named_tools(tools_in_file(place))
    renames = chosen_renames(options)
    file = ExamplesFile(NO_FILE, tools)
    if options.output is not None:
        file = ExamplesFile.open(options.output, tools, renames)
    if options.own is not None:
        file.replace_own(example for own in options.own for example in _own_examples(own, tools, renames))
    scope = {name: tool for name, tool in tools.items() if options.server in (None, tool.server)}
    if not scope:
        raise UsageError(f"There is no tool of the server {options.server!r}. Check --server.")
    if options.print_prompt or options.answer is not None:
        return _write_by_hand(options, file, _in_one_prompt(scope, wanted), wanted)
    asked = prompts(scope, wanted, file.made_up)
    if options.dry_run:
        print(cost(asked, dollars))
        return 0
    if options.endpoint is None:
        file.save()
        return _report_written(options, file, wanted, asked_for={})
    print(cost(asked, dollars), file=sys.stderr)
    with shown("calls") as progress:
        file.ask(asked, _endpoint_model(options), progress)
    file.save()
    return _report_written(options, file, wanted, asked_for=scope)


def _wanted(options: argparse.Namespace) -> Wanted:
    """How many examples the options ask for."""
    return Wanted(
        options.per_tool,
        _split_names(options.languages or "en"),
        options.together,
        options.none,
        None if options.trusted == EVERY else _split_names(options.trusted),
    )


def _own_examples(path: Path, tools: dict[str, Tool], renames: Renames) -> list[Example]:
    """What people call tools, examples, or a log of requests in any shape that camdf fit reads."""
    if (path.suffix == ".json" and _has_names(path)) or columns_at_a_glance(path) <= EXAMPLE_FIELDS:
        return own_examples(path, tools, renames)
    log = read_text_log(path, tools, renames=renames)
    print("\n".join([*log.lines(), ""]), file=sys.stderr)
    known = (request for request in log.requests if request.required and tools.keys() >= set(request.required))
    return [Example(request.text, request.required, origin="logged") for request in known]


def _has_names(path: Path) -> bool:
    """Whether a .json file maps tools to what people call them, and is no log."""
    values = [value for row in read_table(path).rows for value in row.fields.values()]
    return all(map(_is_aliases, values))


def _is_aliases(value: object) -> bool:
    return isinstance(value, list) and not any(isinstance(part, dict) for part in value)


def _in_one_prompt(tools: dict[str, Tool], wanted: Wanted) -> dict[str, Tool]:
    """The tools that one prompt may show together: those of one server, or of servers that are trusted."""
    servers = list(dict.fromkeys(tool.server for tool in tools.values()))
    if len(servers) < 2:
        return tools
    trusted = {name: tool for name, tool in tools.items() if wanted.trusts(tool.server)}
    if not trusted:
        raise UsageError(
            f"The tools come from {len(servers)} servers. In one prompt, the description of one could change what is "
            f"written for another. Trust some, --trusted {','.join(servers[:3])} or --trusted '{EVERY}', or write for "
            f"one at a time, --server {servers[0]}."
        )
    return trusted


def _write_by_hand(options: argparse.Namespace, file: ExamplesFile, tools: dict[str, Tool], wanted: Wanted) -> int:
    """Print a prompt to paste into an assistant, or read what it answered."""
    asked = prompts(tools, wanted, file.made_up, apart=False)
    if options.print_prompt:
        for prompt in asked:
            print(f"{TASK}\n\n{prompt.text}")
        if not asked:
            print(f"Nothing is lacking in {options.output}.", file=sys.stderr)
        return 0
    answer = options.answer.read_text(encoding="utf-8-sig", errors="replace")
    for prompt in asked:
        file.take(answer, prompt)
    return _report_written(options, file, wanted, asked_for=tools)


def _endpoint_model(options: argparse.Namespace) -> Callable[[Prompt], str]:
    def answer(prompt: Prompt) -> str:
        return completion(
            options.endpoint,
            options.model,
            prompt.messages,
            schema=None if options.no_schema else ("examples", prompt.schema),
            key_variable=options.key_variable,
            options={"temperature": None, "max_tokens": options.max_tokens},
            timeout=options.timeout,
            deadline=time.monotonic() + 2 * options.timeout,
            retries=RETRIES,
        )

    return answer


def _report_written(options: argparse.Namespace, file: ExamplesFile, wanted: Wanted, asked_for: dict[str, Tool]) -> int:
    """Say what was written and what is lacking; the exit code."""
    lacking = {name: languages for name, languages in file.lacking(wanted).items() if name in asked_for}
    by_origin = Counter[str](example.origin for example in file.examples)
    origins = {origin: by_origin[origin] for origin in ORIGINS}
    if options.json:
        document = {
            "examples": len(file.examples),
            "origins": origins,
            "lacking": lacking,
            "refused": file.refused,
            "changed": file.changed,
            "unlisted": file.unlisted,
            "wrote": str(options.output),
        }
        print_json(document)
    else:
        _print_written(file, origins, lacking)
        servers = {tool.server for tool in asked_for.values()}
        if len(servers) > 1 and wanted.together and wanted.trusted is not None and not wanted.trusted:
            print("No request needs tools of several servers: name the servers that you trust with --trusted.")
        print(f"wrote {options.output}")
    return _exit_code(complete=not lacking)


def _print_written(file: ExamplesFile, origins: dict[str, int], lacking: dict[str, list[str]]) -> None:
    counts = ", ".join(f"{count} {origin}" for origin, count in origins.items() if count)
    print(": ".join(filter(None, (f"{len(file.examples)} examples for {len(file.tools)} tools", counts))))
    if file.changed:
        print(f"Tools that changed, whose examples stay until others are written: {_with_count_of_more(file.changed)}")
    if file.unlisted:
        print(f"Tools that are no longer listed, whose examples are left out: {_with_count_of_more(file.unlisted)}")
    if file.refused:
        refused = ", ".join(f"{count} {why}" for why, count in file.refused.most_common())
        print(f"Left out of the answers: {refused}")
    if lacking:
        print(f"Tools that lack examples: {len(lacking)}. Run the command again to ask for these alone.")
        _print_lacking(lacking)


def _check_examples(options: argparse.Namespace, tools: dict[str, Tool]) -> int:
    examples = read_examples(options.check)
    languages = _split_names(options.languages)
    with shown("parts ranked by the others", after=2.0) as progress:
        result = check_examples(examples, tools, languages, progress=progress)
    if options.json:
        print_json(result.as_record())
    else:
        _print_check(result)
    return _exit_code(result.complete)


def _exit_code(complete: bool) -> int:
    if complete:
        return 0
    return INCOMPLETE


def _print_check(check: Check) -> None:
    total = sum(check.origins.values())
    tools = len(check.coverage)
    origins = ", ".join(f"{count} {origin}" for origin, count in check.origins.items())
    print(f"{total} examples for {tools} tools: {origins or 'none'}")
    for language, count in check.languages.items():
        having = sum(language in counts for counts in check.coverage.values())
        print(f"  {language or 'not told':<8} {count:>5} examples, for {having} of {tools} tools")
    if check.unknown:
        print(f"\nTools that are not in the list: {_with_count_of_more(check.unknown)}")
    if check.lacking:
        print(f"\nTools that lack examples: {len(check.lacking)}")
        _print_lacking(check.lacking)
    if check.repeated:
        print(f"\nRequests that stand there twice: {len(check.repeated)}")
        _print_some([f"{text!r}: {', '.join(names) or 'no tool'}" for text, names in check.repeated.items()])
    among = "first" if check.best == 1 else f"among the best {check.best}"
    print(f"\nRequests whose tools come {among}, by a ranking that has the other examples:")
    for name, share in check.shares.items():
        print(f"  {name:<14} {share:>4.0%}")
    print(f"  {'by chance':<14} {check.best / tools:>4.0%}")
    if check.near_duplicates:
        print("\nNear-duplicates: how often requests for the first tool rank the second one first")
        _print_some([f"{own}  {first}  {count} of {total}" for own, first, count, total in check.near_duplicates])
    if check.missed:
        print(f"\nRequests whose tools no ranking finds: {len(check.missed)}")
        _print_some([f"{', '.join(example.right)}: {example.text}" for example in check.missed])


def _print_lacking(lacking: Any) -> None:
    _print_some([f"{name}: {', '.join(filter(None, languages)) or 'any'}" for name, languages in lacking.items()])


def _print_some(lines: list[str]) -> None:
    print("\n".join(f"  {line}" for line in lines[:LISTED]))
    if len(lines) > LISTED:
        print(f"  and {len(lines) - LISTED} more; --json has all")


def _with_count_of_more(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LISTED])
    more = len(names) - LISTED
    if more <= 0:
        return shown
    return f"{shown}, and {more} more"


def _split_names(names: str | None) -> tuple[str, ...]:
    if not names:
        return ()
    return tuple(name.strip() for name in names.split(","))


def _dollars_for_tokens(prices: str | None) -> tuple[float, float] | None:
    if prices is None:
        return None
    try:
        read, written = map(float, prices.split(","))
        if read > 0 and written >= 0:
            return read, written
    except ValueError:
        pass
    raise UsageError(f"--prices must be two numbers of dollars, as 3,15. Got {prices!r} instead.")
