"""Everyday conversations through any driver of the conformance suite, and all that a run of it finds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from drivers import FRAMEWORKS

from camdf import Payoff, cold_start
from camdf.gate import Gate, Limits
from camdf.gate.lists import Mode
from camdf.gate.notes import BEGINS
from camdf.integrations.conformance import CHECKS, ChatTurn, Driver, RunnableTool, Setup
from camdf.policies.rules import FirstDay
from camdf.scorers import BM25
from everyday import Conversation, Played, check_every_way

CONVERSATIONS = "everyday conversations"
NOTED = "everyday conversations with notes"
JOINS = "what a turn needs joins its end"


def check_everyday(driver: Driver, conversation: Conversation) -> None:
    """On one worker, on two, and restarted at every turn; without the tool search, and with it."""
    with Played(conversation) as model:
        searches = (False, True) if getattr(driver, "HAS_TOOL_SEARCH", True) else (False,)
        check_every_way(model, lambda workers, tool_search: _play(driver, model, workers, tool_search), searches)


def check_notes(driver: Driver, conversation: Conversation) -> None:
    """The list never changes, and a noted turn is sent alike ever after, on one worker, on two, and restarted.

    A turn that forces a tool has a list of its own, and a summary that replaces the history may change it.
    """
    sent: list[list[tuple[str, list[str]]]] = []
    for workers in (1, 2, 0):
        with Played(conversation) as model:
            _play(driver, model, workers, True, "append")
            sent.append([_list_and_noted_turns(request) for request in model.requests])
            served = model.served
    assert sent[0] == sent[1] == sent[2]
    if conversation.summary_after is not None:
        return
    lists = [listed for (listed, _), each in zip(sent[0], served, strict=True) if not each.turn.tool_choice]
    assert len(set(lists)) == 1
    if len(lists) == len(served):
        assert all(later[: len(noted)] == noted for (_, noted), (_, later) in pairwise(sent[0]))


def _list_and_noted_turns(request: dict[str, Any]) -> tuple[str, list[str]]:
    """The tools of a request, and the turns of the user that a note has joined."""
    messages = request.get("messages") or request.get("input") or []
    said = [json.dumps(message["content"]) for message in messages if message.get("role") == "user"]
    return json.dumps(request.get("tools"), sort_keys=True), [turn for turn in said if BEGINS in turn]


def everyday_gate(mode: Mode = "drop") -> Gate:
    if mode == "append":
        return Gate(FirstDay(), BM25(), Payoff(0.0), limits=Limits(seconds=60), mode=mode)
    return Gate(cold_start(), BM25(), Payoff(0.02), limits=Limits(seconds=60))


def _play(driver: Driver, model: Played, workers: int, tool_search: bool, mode: Mode = "drop") -> None:
    conversation = model.conversation

    def worker() -> Any:
        tools = tuple(_tool(model, **each["function"]) for each in conversation.tools)
        return driver.build(Setup(model.url, tools, everyday_gate(mode), tool_search, system))

    system, history = conversation.system, None
    agents = [worker() for _ in range(workers)]
    for turn in conversation.turns:
        agent = agents[turn.number % workers] if workers else worker()
        model.begin(turn)
        history = driver.send(agent, ChatTurn(turn.content, history, forced=turn.tool_choice)).history
        if turn.number == conversation.summary_after:
            history, system = None, f"{conversation.system}\n{conversation.summary}"
            agents = [worker() for _ in range(workers)]


def _tool(model: Played, name: str, description: str, parameters: dict[str, Any]) -> RunnableTool:
    return RunnableTool(name, description, lambda arguments: model.result(name), parameters)


def conformance(driver: Any, conversations: Iterable[Conversation]) -> dict[str, str]:
    """By the name of a check, "yes", or why the framework is exempt; what is broken is raised."""
    verdicts = {}
    for name, check in CHECKS.items():
        if name in driver.EXEMPT:
            verdicts[name] = driver.EXEMPT[name]
            continue
        check(driver)
        verdicts[name] = "yes"
    played = 0
    for conversation in conversations:
        check_everyday(driver, conversation)
        if JOINS not in driver.EXEMPT:
            check_notes(driver, conversation)
        played += 1
    counted = f"{played} of 30"
    return {**verdicts, CONVERSATIONS: counted, NOTED: driver.EXEMPT.get(JOINS, counted)}


HEAD = """# What every adapter is checked for

One suite runs every adapter, and a loop without a framework: real agents talk over HTTP to a scripted model, and what
counts is the request that reaches it. {checks}

On top of these come thirty everyday conversations over 40 and 400 tools. Each is served by one worker, by two in turn
and by a new one for every turn, with the [tool search](../glossary.md#tool-search) and without, and the same bytes must
reach the model. Where an adapter can change messages, they are played in mode `append`, too: until a summary replaces
the history, the list never changes but where a turn forces a tool, and what a turn was told stays as it was.

"""

EXEMPT = """
No check fails. What a framework cannot do is exempt for a reason, and the suite notices an exemption that is no longer
needed:

"""

TAIL = """
CI runs all checks, and two of the conversations, on the newest versions. `python benchmarks/conformance.py --page`
writes this page from `results/conformance.json`.

## An adapter of your own

`camdf.integrations.conformance.check_adapter` runs the same suite on yours, by a driver: an object or a module with two
functions. `build(setup)` makes an agent as a new process would; `send(agent, turn)` runs it on one turn of the user and
returns the history as a database would keep it. Where `setup.traced`, the agent writes spans with the framework's own
OpenTelemetry. An adapter without a tool search says `HAS_TOOL_SEARCH = False`. Those of the adapters here are in
`tests/environments/frameworks/drivers/`.

```python no-run
from camdf.integrations.conformance import Reply, check_adapter


class Driver:
    def build(self, setup):
        gate = my_adapter(setup.gate, setup.tool_search)
        return my_agent(setup.url, setup.tools, gate, setup.system)

    def send(self, agent, turn):
        result = agent.run(turn.said, history=turn.history, stream=turn.stream)
        return Reply(result.history, result.text)


without = {"handoffs": "agents of mine hand over to nobody"}
check_adapter(Driver(), exempt=without)
```

A `BrokenPromiseError` begins with the name of the check that failed. [How to write an adapter](../extend.md).
"""


def table(stored: dict[str, dict[str, dict[str, str]]]) -> str:
    """What the newest version of each framework passes."""
    heads = ["framework", "versions tried", "checks passed", "conversations", "with notes"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for name, versions in stored.items():
        newest = list(versions.values())[-1]
        passed = sum(newest[check] == "yes" for check in CHECKS)
        tried = " and ".join(versions)
        noted = newest[NOTED] if newest[JOINS] == "yes" else "-"
        cells = [FRAMEWORKS[name].title, tried, f"{passed} of {len(CHECKS)}", newest[CONVERSATIONS], noted]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def exemptions(stored: dict[str, dict[str, dict[str, str]]]) -> str:
    """By framework, the checks that it is exempt from, and why."""
    lines = []
    for name, versions in stored.items():
        newest = list(versions.values())[-1]
        reasons: dict[str, list[str]] = {}
        for check in CHECKS:
            if newest[check] != "yes":
                reasons.setdefault(newest[check], []).append(check)
        told = (f"*{', '.join(checks)}* ({reason})" for reason, checks in reasons.items())
        if reasons:
            lines.append(f"- {FRAMEWORKS[name].title}: {'; '.join(told)}.")
    return "\n".join(lines) + "\n"


def page(stored: dict[str, dict[str, dict[str, str]]]) -> str:
    checks = f"The {len(CHECKS)} checks: {', '.join(f'*{name}*' for name in CHECKS)}."
    return f"{HEAD.format(checks=checks)}{table(stored)}{EXEMPT}{exemptions(stored)}{TAIL}"
