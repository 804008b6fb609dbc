"""Commands on lists of tools, without labels: try, worth."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any, get_args

from camdf.cli.mcp_file import tools_of_servers
from camdf.cli.parser import add_json, check_output, print_json
from camdf.cli.tool_names import add_renamed, chosen_renames
from camdf.datasets.examples import past_tasks, read_examples, renamed_examples
from camdf.errors import CamdfError, UsageError
from camdf.gate.target import Target
from camdf.gate.worth import Conversation, sentence, shared_sentence, worth
from camdf.integrations.gateway.config import TABLES, served_file
from camdf.integrations.skills.folders import SkillList, skills_in
from camdf.integrations.skills.skill import Skill
from camdf.policies.artifact import load
from camdf.policies.base import Policy
from camdf.policies.rules import USUAL_TOOLS
from camdf.prices import Prices
from camdf.runtime.files import write_whole
from camdf.runtime.loose_json import plain_json
from camdf.runtime.visible import visible
from camdf.scorers import BM25, Scorer, Start
from camdf.scorers.named import ScorerMismatch, scorer_of, scorer_record
from camdf.tools import FromServer, Tool, viewed_tool
from camdf.trial import trial

TOOLS_FILE = (
    "the tools as JSON: OpenAI, Anthropic or MCP definitions, an object from name to description, or an MCP client's "
    "file of servers (mcp.json, Codex's config.toml), which are asked for their tools; or a folder of skills (SKILL.md)"
)


NAMED = 5
"""How many tools a line names."""

PRICES = "3.00,0.30, or a file that camdf mine --statistics wrote"

SCORERS: dict[str, Callable[[], Scorer]] = {"start": Start, "bm25": BM25}
SCORED = {
    "start": "from parts of words and word vectors (camdf[start])",
    "bm25": "from words in common alone; camdf[start] also knows what words mean",
}


def add_commands(commands: Any) -> None:
    """try, worth."""
    tried = commands.add(_try)
    tried.add_argument("tools", type=Path, help=TOOLS_FILE)
    tried.add_argument("request", help="what a user asks, in quotes")
    target = tried.add_mutually_exclusive_group()
    target.add_argument(
        "--mean-tools",
        "--tools",
        dest="most",
        metavar="N",
        type=int,
        help=f"how many ({USUAL_TOOLS}, or all where cutting costs more than it saves)",
    )
    target.add_argument(
        "--sufficiency", metavar="SHARE", type=float, help="or: how often they should be enough, as 0.9"
    )
    target.add_argument("--dollars", type=float, help="or: what they may cost a task, as 0.01")
    target.add_argument("--policy", type=Path, help="or: a policy that camdf fit wrote, which decides (.json)")
    tried.add_argument("--examples", type=Path, help="with --policy: what camdf fit --remember wrote (.jsonl)")
    tried.add_argument(
        "--tool-search",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether the agent can search for what was cut (default: it can)",
    )
    tried.add_argument(
        "--scorer",
        choices=SCORERS,
        help="who scores (default: what the policy was fitted with, if any; else start if installed, else bm25)",
    )
    add_scorer_mismatch(tried)
    add_renamed(tried)
    tried.add_argument("--all", action="store_true", help="show every tool, and not only the first that are cut")
    tried.add_argument("-o", "--output", type=Path, help="where to draw the decision (.svg)")
    add_prices(tried)
    add_worth(tried, "a solved task")
    add_json(tried)

    worth_parser = commands.add(_worth)
    worth_parser.add_argument("tools", type=Path, help=TOOLS_FILE)
    usual = Conversation()
    for name, kind, counts in (
        ("turns", int, "turns of the user in a conversation"),
        ("requests", int, "model calls a turn"),
        ("spoken", int, "tokens that a model call adds to the prompt"),
        ("system", int, "tokens of the system prompt"),
        ("opened", float, "share of conversations that begin with a greeting"),
        ("share", float, "share of the tools that is loaded at first"),
        ("searches", float, "with a tool search: searches a turn"),
        ("widened", float, "without a tool search: share of later turns that add a tool"),
    ):
        worth_parser.add_argument(f"--{name}", type=kind, default=getattr(usual, name), help=f"{counts} (%(default)s)")
    worth_parser.add_argument("--mean-tools", type=float, metavar="N", help="or: how many tools are loaded at first")
    worth_parser.add_argument(
        "--sufficiency", metavar="SHARE", type=float, help="or: in which share of the turns they are enough, as 0.9"
    )
    worth_parser.add_argument(
        "--tool-search",
        action=argparse.BooleanOptionalAction,
        help="only what an agent can do that has a search for what was cut, or has none",
    )
    add_prices(worth_parser)
    add_worth(worth_parser, "a conversation that solves its task")
    add_json(worth_parser)


def add_scorer_mismatch(parser: argparse.ArgumentParser) -> None:
    """Whether another scorer may stand in for the one that a policy was fitted with."""
    parser.add_argument(
        "--scorer-mismatch",
        choices=get_args(ScorerMismatch),
        default="refuse",
        help="allow another scorer than the policy was fitted with (default: %(default)s)",
    )


def add_prices(parser: argparse.ArgumentParser) -> None:
    """What a million tokens of a prompt cost."""
    usual = Prices()
    parser.add_argument(
        "--uncached", type=float, default=usual.uncached, help="dollars for a million tokens (%(default)s)"
    )
    parser.add_argument(
        "--cached", type=float, default=usual.cached, help="the same where they are cached (%(default)s)"
    )
    parser.add_argument("--prices", type=read_prices, metavar="UNCACHED,CACHED", help=f"both at once: {PRICES}")


def read_prices(written: str) -> Prices:
    """What `PRICES` says."""
    try:
        if written.endswith(".json"):
            return Prices.from_statistics(written)
        uncached, cached = map(float, written.split(","))
        return Prices(uncached=uncached, cached=cached)
    except (ValueError, CamdfError) as error:
        why = f". {error}" if isinstance(error, CamdfError) else ""
        raise argparse.ArgumentTypeError(f"must be two prices, as 3.00,0.30. Got {written!r} instead{why}") from None


def chosen_prices(options: argparse.Namespace) -> Prices:
    """Those of `--prices`, else of `--uncached` and `--cached`."""
    return options.prices or Prices(uncached=options.uncached, cached=options.cached)


def add_worth(parser: argparse.ArgumentParser, of_what: str) -> None:
    """What a solved task is worth, beside which the price of its tools is told."""
    parser.add_argument("--task-worth", type=float, metavar="DOLLARS", help=f"what {of_what} is worth, as 0.50")


def of_its_worth(options: argparse.Namespace, dollars: float, every: float) -> list[str]:
    """What the tools cost beside what they are for; first of all where all of them would cost more."""
    worth = options.task_worth
    if worth is None:
        return []
    if not 0 < worth < inf:
        raise UsageError(f"The --task-worth must be above 0, in dollars. Got {worth:g}.")
    if every > worth:
        return [f"Beware: giving every tool costs ${every:.4f}, more than the ${worth:g} that this is worth."]
    return [f"Worth ${worth:g}: this costs {dollars / worth:.1%} of that, and giving every tool {every / worth:.1%}."]


def _try(options: argparse.Namespace) -> int:
    """Show which tools a request would get, and why.

    camdf try tools.json 'Book me a room in Lyon for Friday'
    """
    renames = chosen_renames(options)
    policy = None if options.policy is None else load(options.policy, renamed=renames)
    name, scorer = _scorer_of_a_try(options.scorer, policy)
    if options.output is not None:
        check_output(options.output, (".svg",))
    target = _target_of_a_try(options)
    if options.examples is not None and options.policy is None:
        raise UsageError(
            "--examples are the past requests that a policy recalls. Name the policy: --policy policy.json"
        )
    past = None
    if options.examples is not None:
        past = past_tasks(renamed_examples(read_examples(options.examples), renames))
    tried = trial(
        options.request,
        tools_in_file(options.tools),
        scorer,
        target,
        policy=policy,
        tool_search=options.tool_search,
        prices=chosen_prices(options) if policy is None else options.prices,
        scorer_mismatch=options.scorer_mismatch,
        past=past,
    )
    if options.output is not None:
        write_whole(options.output, tried.decision.svg().encode())
    if options.json:
        print_json({"scorer": name, **tried.summary()})
        return 0
    for line in of_its_worth(options, *tried.dollars):
        print(line)
    width = shutil.get_terminal_size().columns
    print("\n".join(tried.lines(width, whole=options.all, block=bar_block())))
    print(f"Scores    {SCORED.get(name, f'from {name}')}")
    if options.output is not None:
        print(f"wrote {options.output}")
    return 0


def _scorer_of_a_try(named: str | None, policy: Policy | None) -> tuple[str, Scorer]:
    """The scorer that is named, else the one that the policy was fitted with, else the usual one; and what it is."""
    if named is None and policy is not None and (fitted := scorer_record(policy)) is not None:
        scorer = scorer_of(fitted)
        if scorer is not None:
            return fitted.kind, scorer
    name = named or usual_scorer()
    return name, SCORERS[name]()


def _target_of_a_try(options: argparse.Namespace) -> Target | None:
    """What the tools should come to, where the options say it."""
    if options.most is not None and options.most < 1:
        raise UsageError(f"--mean-tools says how many a request gets, and must be at least 1. Got {options.most}.")
    if options.dollars is not None and not 0 <= options.dollars < inf:
        raise UsageError(
            f"--dollars says what the tools may cost a task, and must not be negative. Got {options.dollars:g}."
        )
    goals = {"mean_tools": options.most, "sufficiency": options.sufficiency, "dollars_per_task": options.dollars}
    if set(goals.values()) == {None}:
        return None
    return Target(**goals)


def bar_block() -> str:
    """What bars are made of: a plain character where the terminal has no other."""
    try:
        "█…".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "#"
    return "█"


def _worth(options: argparse.Namespace) -> int:
    """Say whether gating a list of tools is worth it.

    camdf worth tools.json --turns 6
    """
    tools = tools_in_file(options.tools)
    prices = chosen_prices(options)
    if options.mean_tools is not None:
        options.share = min(1.0, options.mean_tools / max(1, len(tools)))
    if options.sufficiency is not None:
        options.searches = options.widened = 1 - options.sufficiency
    shape = Conversation(**{part.name: getattr(options, part.name) for part in fields(Conversation)})
    out_of_reach = {True: ["drop, no tool search"], False: ["append", "drop, with a tool search"]}
    unlike = out_of_reach.get(options.tool_search, ())
    costs = [cost for cost in worth(tools, prices, shape) if cost.mode not in unlike]
    verdict = [
        sentence(costs),
        shared_sentence(worth(tools, prices, shape, shared=True)),
        f"What is loaded is taken to be enough in {1 - shape.searches:.0%} of turns; in the others the agent searches.",
    ]
    beside = of_its_worth(options, min(cost.dollars for cost in costs), costs[0].dollars)
    calls = shape.turns * shape.requests
    if options.json:
        print_json({"modes": [cost._asdict() for cost in costs], "sentence": " ".join([*beside, *verdict])})
        return 0
    print("".join(f"{line}\n\n" for line in beside), end="")
    listed = f"{costs[0].loaded} tools" if costs[0].loaded > 1 else "One tool"
    shaped = f"a conversation of {shape.turns} turns and {calls} model calls"
    print(f"{listed}; {shaped}; {shape.share:.1%} loaded at first:\n")
    print(f"{'mode':<24} {'loaded':>6}  {'dollars':>8}  {'of no gate':>10}  {'of its tokens':>13}")
    for cost in costs:
        dollars = cost.dollars / costs[0].dollars
        tokens = cost.tokens / costs[0].tokens
        print(f"{cost.mode:<24} {cost.loaded:>6}  {cost.dollars:>8.4f}  {dollars:>10.2f}  {tokens:>13.2f}  {cost.note}")
    print("", *verdict, sep="\n")
    return 0


def usual_scorer() -> str:
    """The name of the scorer to use where none is named: the better one whose extra is installed."""
    if find_spec("bm25s") and not find_spec("wordllama"):
        return "bm25"
    return "start"


def tools_in_file(path: Path) -> list[Any]:
    """The tools of a file, in whatever shape a harness has them; what is odd about them is said on standard error."""
    tools = _read_tools(path)
    for line in odd_tools(tools):
        print(line, file=sys.stderr)
    return tools


def odd_tools(tools: Sequence[Any]) -> list[str]:
    """What is odd about a list of tools: names that stand twice, and tools that say nothing of what they do."""
    viewed = [viewed_tool(native) for native in tools]
    counts = Counter(tool.full_name for tool in viewed)
    silent = [tool.full_name for tool in viewed if not tool.foreign and not tool.description.strip()]
    bare = [tool.full_name for tool, native in zip(viewed, tools, strict=True) if tool.foreign and _is_bare(native)]
    odd = {
        "Several tools have one name, and no request tells them apart. Rename or remove all but one": [
            name for name, count in counts.items() if count > 1
        ],
        "Tools without a description, found by their names alone": silent,
        "Tools without a description and parameters, which are never cut and not counted": bare,
    }
    return [f"{why}: {_first_names(names)}." for why, names in odd.items() if names]


def _is_bare(native: Any) -> bool:
    """Whether a tool that cannot be scored is a definition with parts missing, and not one that a provider runs."""
    given = native.tool if isinstance(native, FromServer) else native
    return isinstance(given, dict) and given.get("type", "function") in ("function", "custom")


def _first_names(names: Sequence[str]) -> str:
    first = ", ".join(map(visible, names[:NAMED]))
    more = len(names) - NAMED
    if more <= 0:
        return first
    return f"{first}, and {more} more"


def _read_tools(path: Path) -> list[Any]:
    if path.is_dir():
        return list(skills_of_folder(path))
    if path.suffix == ".toml":
        return tools_of_servers(served_file(path))
    try:
        written = _json_with_comments(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{path} is not JSON{place}. Give tool definitions, as a request to a model has.") from None
    if isinstance(written, dict) and written and all(isinstance(value, str) for value in written.values()):
        return [Tool(name, description) for name, description in written.items()]
    if isinstance(written, dict):
        if any(isinstance(written.get(table), dict) for table in TABLES):
            return tools_of_servers(served_file(path))
        answer = written.get("result")  # of an MCP server to tools/list
        holder = answer if isinstance(answer, dict) else written
        written = holder.get("tools")
    if not isinstance(written, list):
        raise UsageError(
            f"{path} has no list of tools: it must be one, an object with one under 'tools', one from name to "
            "description, or a client's file of MCP servers."
        )
    return list(map(_with_server, written))


def skills_of_folder(path: Path) -> tuple[Skill, ...]:
    """The skills below a folder; those that cannot be read are named on standard error."""
    there = skills_in(path)
    for problem in problem_lines(there):
        print(problem, file=sys.stderr)
    if not there.skills:
        raise UsageError(f"{path} has no skill in it: a folder with a SKILL.md. Name another folder.")
    return there.skills


def problem_lines(there: SkillList) -> list[str]:
    """What could not be read, and why."""
    return [visible(f"{path} {why}") for path, why in there.problems.items()]


def _json_with_comments(text: str) -> Any:
    """What a file holds, which may have comments as clients allow them; errors name the place in the file itself."""
    try:
        return json.loads(text)
    except ValueError as error:
        try:
            return json.loads(plain_json(text))
        except ValueError:
            raise error from None


def _with_server(listed: Any) -> Any:
    """A tool that may stand beside the name of its server: {"server": "mail", "tool": {...}}."""
    if not isinstance(listed, dict) or "tool" not in listed:
        return listed
    if not isinstance(listed.get("server"), str):
        return listed["tool"]
    return FromServer(listed["server"], listed["tool"])
