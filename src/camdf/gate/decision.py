"""What the gate answers: the tools to hand to the model, and why these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, overload

from camdf.gate import lists
from camdf.gate.append import Addition, AuthorizedTools, Channel, NativeChannel, betas_of
from camdf.gate.code import Code, python_code, typescript_code
from camdf.gate.lists import Mode
from camdf.gate.ranking import Ranked, waterfall
from camdf.gate.tool_search import CALL, find_tool, fits
from camdf.policies.training import FittedCatalogue
from camdf.tools import Tool

Reason: TypeAlias = Literal[
    "decided",
    "decided before",
    "explored",
    "nothing needed",
    "empty task",
    "no signal",
    "scorer failed",
    "scorer too slow",
    "scorer busy",
    "scorer resting",
    "scores refused",
    "policy failed",
    "tools not readable",
    "request too large",
    "name taken",
    "arguments swapped",
    "switched off",
]
"""Why these tools. Only the first four decide, and "nothing needed" adds no tool. After the others a conversation keeps
the tools that it has. Where nothing was decided yet, it gets the tool search, or every authorized tool if it has no
search. It also gets all of them where one of them has the name of the tool search, and where a call has task and tools
swapped: `error` says more."""

SHOWN = 5
"""How many tools an explanation names that the policy was not fitted on."""

MODES_IN_WORDS: dict[Mode, str] = {
    "drop": "",
    "append": " Those that turns brought stand among the messages.",
    "defer": " Cut tools are deferred.",
    "allow": " Cut tools are listed, and may not be called.",
    "shadow": " Shadow mode: nothing was cut.",
}

REASONS_IN_WORDS: dict[Reason, str] = {
    "decided": "the set worth its cost",
    "decided before": "as decided before in this conversation",
    "explored": "this task explores, so it sees every tool",
    "nothing needed": "most likely no tool is needed",
}


@dataclass(frozen=True)
class GateDecision:
    """`tools` is what to hand to the model: the harness's own objects, in an order that keeps a cached prompt intact.

    A harness that sends the decision's messages too takes both from one call, `openai(messages)` and the like: in mode
    "append" the request declares `head`, the same in every request, and all else that was kept joins the messages.

    `kept`, `cut` and `refused` name all tools of the request: kept ones are worth their cost or guarded, cut ones are
    not, refused ones may not be offered at all. Among the refused are also tools that the history would bring to the
    model and that are not the request's own. In every mode but "drop" and "append" the cut ones are among `tools` too.
    """

    tools: list[Any] = field(repr=False)
    kept: tuple[str, ...]
    cut: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    reason: Reason = "decided"
    mode: Mode = "drop"
    """The gate's; "drop" instead of "append" where tools cannot join: no messages were shown, the harness does not send
    those of the decision, the agent has no tool search, or every tool is loaded."""

    head: list[Any] = field(default_factory=list, repr=False)
    """In mode "append": what every request of the agent declares, beside the tool search. Otherwise `tools`."""

    channel: Channel | None = None
    """In mode "append": where tools join, in a channel of the model's provider or in a note."""

    appended: tuple[Addition, ...] = field(default=(), repr=False)
    """In mode "append": tools that turns bring and that the history does not have yet, by turn; `messages` puts them
    there. They are among `kept`, and not in `head`."""

    authorized: AuthorizedTools = field(default_factory=AuthorizedTools, repr=False, compare=False)
    """The tools that may be offered, by which `messages` reads a history."""

    joined: tuple[str, ...] = ()
    """In mode "append": all tools that turns brought, in the history or not."""

    may_run: frozenset[str] | None = field(default=None, repr=False)
    """The closed set of the tools that may run, by name or as "mail/send", where the gate has a `Privilege`. Hand it
    to `Gate.answer`. None where every tool that may be offered may run."""

    brought: tuple[str, ...] = ()
    """Those of them that may run since the user's own words ask for them."""

    explored: bool = False
    """Part of the exploration share: this task saw every tool, so its log is free of the policy's own censoring."""

    ranking: tuple[Ranked, ...] = field(default=(), repr=False)
    none: float | None = None
    """How likely the last turn is to need no tool, where the policy learned that from tasks that needed none."""

    vector: bytes = field(default=b"", repr=False)
    """The direction of what was asked, a signed byte a number, where the scorer embeds texts and the policy reads them.
    Events never hold it: from it one can tell whether two texts are alike."""

    error: str = ""
    """The type of what was raised, never its text, which may hold the task's; or what is wrong with the call."""

    open: bool = False
    """Nothing was decided, now or earlier in the conversation: the whole authorized list, or the named fallback; with a
    tool search, what must stay."""

    tool_search: bool = False
    """Whether the agent can search for what was cut."""

    hidden: str = field(default="", repr=False)
    """The names of what a search leads to, by server, as its description has them; "" where there is no search."""

    conversation: str = ""
    """The name of the conversation, as it was given or as the gate made it; "" where it has none."""

    needs_name: bool = False
    """Whether the gate explores or is rolled out to a share, and left this conversation alone since it has no name."""

    servers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where the tools come from, by the names above: of those whose server is known."""

    cost_pressure: float | None = None
    """At which it was decided, which `explore_pressure` may have lowered; None where no policy's word was followed."""

    id: str = field(default="", compare=False)
    """Its own, in logs and in traces."""

    policy_digest: str = ""
    """The SHA-256 in the policy's file, or that `camdf.save` would write there; "" for one that cannot be saved."""

    catalogue: FittedCatalogue | None = field(default=None, repr=False)
    """The tools that the policy was fitted on, where its file says so."""

    examples_digest: str = ""
    """The SHA-256 of the examples that the scorer reads; "" where it reads none."""

    latency: float = field(default=0.0, compare=False)
    """Seconds from the question to the answer."""

    def explain(self) -> str:
        """The decision as a small table: every ranked tool, its score, its priced cost, and why it was kept or cut."""
        total = len(self.kept) + len(self.cut)
        note = MODES_IN_WORDS[self.mode]
        if self.needs_name:
            note += " It has no name, so it is neither explored nor split."
        lines = [f"Kept {len(self.kept)} of {total} tools: {self._because()}.{note}"]
        if self.none is not None:
            lines.append(f"No tool is needed with a chance of {self.none:.0%}, as labels say.")
        if self.ranking:
            shown = [self._name_with_server(tool.name) for tool in self.ranking]
            width = max(4, *map(len, shown))
            lines += ["", f"{'rank':>4}  {'tool':<{width}}  {'score':>6}  {'evidence':>8}  {'priced':>7}"]
            for rank, (name, tool) in enumerate(zip(shown, self.ranking, strict=True), 1):
                evidence = "" if tool.evidence is None else f"{tool.evidence:.3f}"
                mark = "kept" if tool.kept else "cut"
                lines.append(
                    f"{rank:>4}  {name:<{width}}  {tool.score:>6.3f}  {evidence:>8}  {tool.priced_cost:>7.4f}  "
                    f"{mark}, {tool.why}"
                )
            priced = f"{self.priced_cost:.4f} of a solved task, of {self.priced_cost_of_all:.4f}"
            lines.append(f"\nPriced cost of what was kept: {priced}.")
        ranked = {tool.name for tool in self.ranking}
        unranked = [name for name in self.kept if name not in ranked]
        if unranked and self.ranking:
            lines.append(f"Never cut: {', '.join(map(self._name_with_server, unranked))}.")
        if unknown := self.unknown_tools:
            share = f"{len(unknown)} of {len(self.ranking)} tools ({len(unknown) / len(self.ranking):.0%})"
            names = ", ".join(map(self._name_with_server, unknown[:SHOWN]))
            if len(unknown) > SHOWN:
                names += f" and {len(unknown) - SHOWN} more"
            lines.append(f"Refit: {share} were not there when the policy was fitted: {names}.")
        if self.may_run is not None:
            asked_for = ", ".join(self.brought) or "none"
            others = len(self.may_run) - len(self.brought)
            lines.append(f"May run: {others} at any time; asked for in the user's own words: {asked_for}.")
        if self.refused:
            lines.append(f"Refused, not authorized: {', '.join(map(self._name_with_server, self.refused))}.")
        return "\n".join(lines)

    def _name_with_server(self, name: str) -> str:
        server = self.servers.get(name, "")
        if not server or name.startswith(f"{server}/"):
            return name
        return f"{server}/{name}"

    @property
    def unknown_tools(self) -> tuple[str, ...]:
        """The ranked tools that were not there when the policy was fitted, as far as its file says."""
        if self.catalogue is None:
            return ()
        return self.catalogue.unknown(tool.name for tool in self.ranking)

    @property
    def needs_tool_search(self) -> bool:
        """Whether the model's list lacks tools that a tool search would lead to."""
        return self.mode in ("drop", "append") and bool(self.cut or self.joined)

    @overload
    def openai(self, messages: None = None) -> list[Any]: ...
    @overload
    def openai(self, messages: Sequence[Any]) -> dict[str, Any]: ...
    def openai(self, messages: Sequence[Any] | None = None) -> list[Any] | dict[str, Any]:
        """`tools` as OpenAI's chat completions take them, and the tool search where something was cut.

        With the `messages` that were decided on: what the request has of tools and messages, by argument, as in
        `client.chat.completions.create(model=..., **decision.openai(messages))`.
        """
        if messages is None:
            return self._list(lists.openai, self.tools)
        return self._request(lists.openai, messages=self._sent(messages, None))

    @overload
    def openai_responses(self, messages: None = None) -> list[Any]: ...
    @overload
    def openai_responses(self, messages: Sequence[Any]) -> dict[str, Any]: ...
    def openai_responses(self, messages: Sequence[Any] | None = None) -> list[Any] | dict[str, Any]:
        """The same for OpenAI's Responses."""
        if messages is None:
            return self._list(lists.openai_responses, self.tools)
        return self._request(lists.openai_responses, input=self._sent(messages, "openai_responses"))

    @overload
    def anthropic(self, messages: None = None) -> list[Any]: ...
    @overload
    def anthropic(self, messages: Sequence[Any]) -> dict[str, Any]: ...
    def anthropic(self, messages: Sequence[Any] | None = None) -> list[Any] | dict[str, Any]:
        """The same for Anthropic's messages, with the `betas` of the request where it needs any."""
        if messages is None:
            return self._list(lists.anthropic, self.tools)
        sent = self._sent(messages, "anthropic")
        betas = betas_of(sent)
        if betas:
            return self._request(lists.anthropic, messages=sent, betas=betas)
        return self._request(lists.anthropic, messages=sent)

    def mcp(self) -> list[Any]:
        """`tools` as a client of MCP has them, and the tool search where something was cut."""
        return self._list(lists.mcp, self.tools)

    def python(self) -> Code:
        """`tools` as signatures of Python functions, for agents that write code, and the tool that each stands for."""
        return python_code(self.tools)

    def typescript(self) -> Code:
        """The same in TypeScript."""
        return typescript_code(self.tools)

    def _list(self, written: Callable[[Any], Any], tools: Sequence[Any]) -> list[Any]:
        """The search comes last: a cached prompt begins with what the conversation has."""
        return list(map(written, (*tools, *self.search)))

    def _request(self, written: Callable[[Any], Any], **arguments: Any) -> dict[str, Any]:
        """The arguments of a request; providers refuse an empty list of tools, so it is left out."""
        tools = self._list(written, self.head)
        return {"tools": tools, **arguments} if tools else arguments

    def _sent(self, messages: Sequence[Any], native: NativeChannel | None) -> list[Any]:
        """The messages with what joins them, in a note unless the request's provider has the channel."""
        channel = self.channel
        if channel is not None and channel != native:
            channel = "note"
        return self.authorized.with_additions(messages, self.appended, channel)

    @property
    def notes(self) -> Mapping[int, str]:
        """The notes that join, by the place of the turn's message: for a harness whose messages are objects of its own.

        Each is a text to send after the turn's own words, in every request. Declare `head` with them.
        """
        if self.channel != "note":
            return {}
        return {addition.after: self.authorized.note(addition) for addition in self.appended}

    def messages(self, history: Sequence[Any]) -> list[Any]:
        """The history to send: without tools that may not be offered, in mode "append" with those that turns brought.

        In every mode, only definitions and names of authorized tools stay among the messages; a tool that was refused,
        changed or never offered is left out and named in `refused`. In mode "append" they go with `head`.
        """
        return self.authorized.with_additions(history, self.appended, self.channel)

    @property
    def search(self) -> tuple[Tool, ...]:
        """The tools of the tool search, where the agent has one and something was cut."""
        if self.tool_search and self.needs_tool_search and fits(self.mode, (*self.kept, *self.cut)):
            return find_tool(self.hidden), CALL
        return ()

    @property
    def priced_cost(self) -> float:
        """What the kept tools cost together, in solved tasks."""
        return sum(tool.priced_cost for tool in self.ranking if tool.kept)

    @property
    def priced_cost_of_all(self) -> float:
        """What all ranked tools would cost, in solved tasks."""
        return sum(tool.priced_cost for tool in self.ranking)

    def svg(self) -> str:
        """The decision as a picture: a waterfall of the ranked tools, the cut, and the priced cost of each."""
        return waterfall(self.explain().splitlines()[0], self.ranking)

    def _repr_svg_(self) -> str:
        return self.svg()

    def event(self) -> Mapping[str, str | bool | int | float | list[str] | list[float]]:
        """OpenTelemetry attributes: names, scores and counts, and never the task's text."""
        where_known: dict[str, str | float] = {}
        if self.examples_digest:
            where_known["camdf.examples_digest"] = self.examples_digest
        if self.cost_pressure is not None:
            where_known["camdf.cost_pressure"] = self.cost_pressure
        return {
            "camdf.id": self.id,
            "camdf.policy_digest": self.policy_digest,
            **where_known,
            "camdf.latency": self.latency,
            "camdf.reason": self.reason,
            "camdf.mode": self.mode,
            "camdf.explored": self.explored,
            "camdf.open": self.open,
            "camdf.named": bool(self.conversation),
            "camdf.error": self.error,
            "camdf.brought": list(self.brought),
            "camdf.kept": list(self.kept),
            "camdf.cut": list(self.cut),
            "camdf.refused": list(self.refused),
            "camdf.ranking.names": [tool.name for tool in self.ranking],
            "camdf.ranking.scores": [tool.score for tool in self.ranking],
            "camdf.priced_cost": self.priced_cost,
        }

    def journal_entry(self) -> Mapping[str, Any]:
        """What a journal keeps of the decision: what the user's words brought, and nothing that anybody said."""
        return {
            "event": "decided",
            "decision": self.id,
            "policy": self.policy_digest,
            "reason": self.reason,
            "brought": list(self.brought),
            "may_run": len(self.may_run or ()),
        }

    def _because(self) -> str:
        if self.reason in REASONS_IN_WORDS:
            return REASONS_IN_WORDS[self.reason]
        why = ", ".join(filter(None, (self.reason, self.error)))
        if self.open:
            return f"the list is open ({why})"
        return f"the list stands ({why})"
