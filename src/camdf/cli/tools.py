"""Commands on lists of tools: worth."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from camdf.errors import UsageError
from camdf.prices import Prices
from camdf.tools import Tool
from camdf.worth import Conversation, sentence, worth

TOOLS_FILE = "the tools as JSON: OpenAI, Anthropic or MCP definitions, or an object from name to description"


def add_commands(commands: Any) -> None:
    """worth."""
    found = commands.add_parser("worth", help="say whether gating a list of tools pays, before anything is deployed")
    found.add_argument("tools", type=Path, help=TOOLS_FILE)
    usual, prices = Conversation(), Prices()
    found.add_argument("--turns", type=int, default=usual.turns, help="of the user in a conversation (%(default)s)")
    found.add_argument("--requests", type=int, default=usual.requests, help="model calls a turn (%(default)s)")
    found.add_argument("--spoken", type=int, default=usual.spoken, help="tokens that a model call adds (%(default)s)")
    found.add_argument("--system", type=int, default=usual.system, help="tokens of the system prompt (%(default)s)")
    found.add_argument(
        "--opened", type=float, default=usual.opened, help="of conversations, by a greeting (%(default)s)"
    )
    found.add_argument("--share", type=float, default=usual.share, help="of the tools loaded at first (%(default)s)")
    found.add_argument("--searches", type=float, default=usual.searches, help="a turn, with a door (%(default)s)")
    found.add_argument("--widened", type=float, default=usual.widened, help="of later turns, without one (%(default)s)")
    found.add_argument("--uncached", type=float, default=prices.uncached, help="dollars a million tokens (%(default)s)")
    found.add_argument("--cached", type=float, default=prices.cached, help="dollars, from the cache (%(default)s)")
    found.set_defaults(run=_worth)


def _worth(options: argparse.Namespace) -> int:
    tools = read_tools(options.tools)
    prices = Prices(uncached=options.uncached, cached=options.cached)
    named = ("turns", "requests", "spoken", "system", "opened", "share", "searches", "widened")
    shape = Conversation(**{name: getattr(options, name) for name in named})
    costs = worth(tools, prices, shape)
    calls = shape.turns * shape.requests
    print(f"{costs[0].loaded} tools; a conversation of {shape.turns} turns and {calls} model calls:\n")
    print(f"{'mode':<18} {'loaded':>6}  {'dollars':>8}  {'of no gate':>10}  {'of its tokens':>13}")
    for cost in costs:
        dollars, tokens = cost.dollars / costs[0].dollars, cost.tokens / costs[0].tokens
        print(f"{cost.mode:<18} {cost.loaded:>6}  {cost.dollars:>8.4f}  {dollars:>10.2f}  {tokens:>13.2f}  {cost.note}")
    print(f"\n{sentence(costs)}")
    return 0


def read_tools(path: Path) -> list[Any]:
    """The tools of a file, in whatever shape a harness has them."""
    try:
        found = json.loads(path.read_text())
    except ValueError:
        raise UsageError(f"{path} is not JSON. Give a list of tool definitions, as a request to a model has.") from None
    if isinstance(found, dict) and found and all(isinstance(each, str) for each in found.values()):
        return [Tool(name, description) for name, description in found.items()]
    if isinstance(found, dict):
        found = found.get("tools")
    if not isinstance(found, list):
        raise UsageError(
            f"{path} has no list of tools: it must be one, an object with one under 'tools', or one from "
            "name to description."
        )
    return [each.get("tool", each) if isinstance(each, dict) else each for each in found]
