"""What the gateway saved, and what was done with it: its log, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from camdf.integrations.gateway.working_set import PRICES, SEARCH
from camdf.runtime.visible import visible

WORKING = ("up", "asleep")
"""States of a server that can be called: one that is asleep starts with its first call."""

EVIDENCE = 10
"""After so many connections that had a server's tools and called none of them, there is something to say of it."""


@dataclass
class Receipt:
    """What connections were given, as means over them, and what they did.

    A search is a miss where no tool that it found was called; where one was without an error, the search learned.
    `servers` has the "calls" of each, those that were "errors", those of tools that were "loaded", and the connections
    that it was "offered" to; `tools` has the calls of each tool. A prompt was "noted" where a note joined it, which
    "named" tools; some of those were then "used". Dollars are at example prices (`working_set.PRICES`).
    """

    connections: int = 0
    offered: float = 0.0
    loaded: float = 0.0
    tokens_offered: float = 0.0
    tokens_loaded: float = 0.0
    tokens_saved: float = 0.0
    searches: int = 0
    learned: int = 0
    misses: int = 0
    calls: int = 0
    servers: dict[str, Counter[str]] = field(default_factory=dict)
    tools: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)

    @property
    def dollars_saved(self) -> float:
        """What the definitions that were left out would have cost all connections."""
        return self.connections * PRICES.of_tokens(self.tokens_saved)

    @property
    def dollars_searched(self) -> float:
        """What the searches cost."""
        return self.searches * PRICES.of_search(**SEARCH)

    def __str__(self) -> str:
        of_all = f"{self.tokens_offered:,.0f} tokens of definitions"
        if self.tokens_saved >= 0:
            tokens = f"{self.tokens_saved:,.0f} of {of_all} saved"
        else:
            tokens = f"{-self.tokens_saved:,.0f} more than the {of_all} needed"
        return (
            f"{self.loaded:.0f} of {self.offered:.0f} tools loaded, {tokens} in every model call; "
            f"searches: {self.searches:,}, calls: {self.calls:,}, misses: {self.misses:,}"
        )


def receipt(
    records: Iterable[Mapping[str, Any]], servers: Iterable[str] = (), only: Collection[str] | None = None
) -> Receipt:
    """The receipt of a log, of all connections or of some; `servers` are listed though nobody called them."""
    total = Receipt(servers={name: Counter(calls=0) for name in servers})
    connects: list[Mapping[str, Any]] = []
    noted: dict[str, set[str]] = {}
    used: set[tuple[str, str]] = set()
    for record in records:
        if only is not None and record.get("event") != "prompt" and record.get("connection") not in only:
            continue
        event = record.get("event")
        total.searches += event == "search"
        if event == "connect":
            connects.append(record)
            for name in record.get("servers") or ():
                total.servers.setdefault(name, Counter(calls=0)).update(offered=1)
        elif event == "prompt":
            noted[str(record.get("prompt"))] = set(record.get("noted") or ())
        elif event == "call":
            use = total.servers.setdefault(str(record.get("server")), Counter(calls=0))
            use.update(calls=1, errors=not record.get("ok"), loaded=bool(record.get("loaded")))
            total.tools[str(record.get("tool"))] += 1
            total.learned += bool(record.get("query"))
            used.add((str(record.get("prompt")), str(record.get("tool"))))
    named = {(prompt, tool) for prompt, tools in noted.items() for tool in tools}
    counts = {"prompts": len(noted), "noted": sum(map(bool, noted.values())), "named": len(named)}
    total.prompts.update({**counts, "used": len(named & used)})
    total.connections = len(connects)
    total.calls = sum(use["calls"] for use in total.servers.values())
    total.misses = total.searches - total.learned
    if connects:
        for name in ("offered", "loaded", "tokens_offered", "tokens_loaded"):
            setattr(total, name, fmean(_noted_amount(record[name]) for record in connects))
    total.tokens_saved = total.tokens_offered - total.tokens_loaded
    return total


def _noted_amount(noted: Any) -> float:
    """A number as the log has it; of a list of names, how many these are."""
    return len(noted) if isinstance(noted, list) else noted


def never_called(use: Mapping[str, int]) -> str:
    """What is true of a server that nobody called: an advice only where enough connections had its tools."""
    offered = use.get("offered", 0)
    if offered < EVIDENCE:
        return "no calls yet"
    return f"no calls in {offered:,} connections that had its tools: does it earn its place?"


def out_of_use(name: str, status: Mapping[str, Any]) -> list[str]:
    """Why a server, or a tool of it, cannot be used: lines of what a gateway wrote down of it."""
    why = []
    if status["state"] not in WORKING:
        since = f" since {status['since']}" if status.get("since") else ""
        why.append(f"{name} is {status['state']}{since}: {status['error'] or 'it has not answered'}.")
    elif status["error"]:
        why.append(f"{name}: {status['error']}.")
    for reason, count in status["left out"].items():
        why.append(f"{name}: {count:,} of its tools left out, because {reason}.")
    return [visible(line) for line in why]
