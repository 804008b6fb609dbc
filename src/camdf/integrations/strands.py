"""Strands Agents: a plugin that gives the model of an agent the tools that its conversation deserves.

    agent = Agent(model, tools=tools, plugins=[ToolGate(gate)])

The conversation is the agent's messages, so any worker that has them decides the same, and nothing is kept here. What
may run is noted in the state of the invocation; a run that goes on elsewhere after an interrupt decides it again. The
tool search is two tools of the agent, `find_tool` and `call_tool`. The history has a `call_tool` as the model wrote it;
the hooks after this plugin's, interrupts, middleware and traces see the tool that it means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate, GateDecision
from camdf.gate.privilege import running_for
from camdf.gate.tool_search import CALL, FIND, TOOL_SEARCH, ToolCall, fits, listing, meant, query_of
from camdf.gate.turns import SUMMARY
from camdf.integrations.chat import chat_message

with needs("strands"):
    from strands.hooks import BeforeToolCallEvent
    from strands.middleware import ExecuteToolStage, InvokeModelStage
    from strands.plugins import Plugin
    from strands.tools.structured_output import DEFAULT_STRUCTURED_OUTPUT_PROMPT
    from strands.tools.tools import PythonAgentTool

HANDOFF = "handoff_to_agent"
"""The tool that a swarm gives to its agents."""

OTHERS_WORDS = ("\nPrevious agents who worked on this: ", "\nInputs from previous nodes:")
"""What a message says that a swarm or a graph made of what its other agents said."""


class ToolGate(Plugin):
    """Hands the model the tools that `gate` keeps, in its order.

    Kept are the tool of a structured answer, a swarm's handoff and a forced choice. `tool_search` adds `find_tool` and
    `call_tool` where tools are cut. Strands runs a cut tool that the model calls from memory, unless the gate refuses
    it. Where the provider holds the history (a stateful model), nothing is cut.
    """

    name = "camdf"

    def __init__(self, gate: Gate, *, tool_search: bool = True) -> None:
        super().__init__()
        self.gate = gate
        self.tool_search = tool_search

    def init_agent(self, agent: Any) -> None:
        registry = agent.tool_registry
        if self.tool_search and fits(self.gate.mode, registry.registry):
            for tool, answer in ((FIND, self._find), (CALL, self._slip)):
                spec: Any = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}
                registry.register_tool(_SearchTool(tool.name, spec, answer))
        agent.add_middleware(InvokeModelStage.Input, self._cut)
        agent.add_middleware(ExecuteToolStage.Wrap, self._run)
        agent.add_hook(self._as_meant, BeforeToolCallEvent)

    async def _cut(self, context: Any) -> Any:
        agent = context.agent
        specs, search = _parted(agent, context.tool_specs)
        keep = [HANDOFF]
        if context.structured_output_model is not None:
            keep.append(context.structured_output_model.__name__)
        choice = (context.tool_choice or {}).get("tool") or {}
        forced = list(filter(None, [choice.get("name")]))
        decision = await self._decide(agent, _standing(context), specs, keep, forced, bool(search))
        context.invocation_state[_may_run_key(agent)] = decision.may_run
        whole = {spec["name"]: spec for spec in context.tool_specs}
        offered = [whole[spec["name"]] for spec in decision.head]
        if decision.search:
            pairs = zip(search, decision.search, strict=True)
            offered += [{**spec, "description": tool.description} for spec, tool in pairs]
        messages = list(context.messages)
        for place, note in decision.notes.items():
            messages[place] = {**messages[place], "content": [*messages[place]["content"], {"text": note}]}
        return context.replace(messages=messages, tool_specs=offered)

    async def _decide(
        self,
        agent: Any,
        messages: Sequence[Any],
        specs: dict[str, Any],
        keep: Sequence[str],
        forced: Sequence[str],
        tool_search: bool,
    ) -> GateDecision:
        history = _read_messages(agent, messages)
        if self.gate.privilege is None and getattr(agent.model, "stateful", False):  # the provider holds the history
            history = []
            keep = list(specs)
        return await self.gate.adecide(
            history,
            specs.values(),
            conversation=getattr(getattr(agent, "_session_manager", None), "session_id", None),
            keep=keep,
            forced=forced,
            tool_search=tool_search,
        )

    async def _find(self, tool_use: Any, **state: Any) -> Any:
        tools = self._callable(state["agent"]).values()
        return _result(tool_use, listing(await self.gate.afind(query_of(tool_use["input"]), tools), tools))

    def _slip(self, tool_use: Any, **state: Any) -> Any:
        return _result(tool_use, str(meant(tool_use["input"], self._callable(state["agent"]))), "error")

    async def _as_meant(self, event: Any) -> None:
        """Call the tool that a `call_tool` means; where it means none, `call_tool` itself says so."""
        agent = event.agent
        use = event.tool_use
        specs, search = _parted(agent)
        if use["name"] == CALL.name and search:
            read = meant(use["input"], self._callable(agent))
            if isinstance(read, ToolCall):
                use = {**use, "name": read.name, "input": read.arguments}
                event.tool_use = use
        if use["name"] in specs and use["name"] in agent.tool_registry.registry:
            may_run = await self._may_run(agent, event.invocation_state, specs)
            words = self.gate.refusal(specs[use["name"]], may_run, use["input"])
            if words:
                event.cancel_tool = words

    async def _may_run(self, agent: Any, state: Any, specs: dict[str, Any]) -> Collection[str] | None:
        """What may run, as the latest request of this run had it, or by the history where it had none here."""
        if self.gate.privilege is None or _may_run_key(agent) in state:
            may_run: Collection[str] | None = state.get(_may_run_key(agent))
            return may_run
        decision = await self._decide(agent, agent.messages, specs, [HANDOFF], [], True)
        state[_may_run_key(agent)] = decision.may_run
        return decision.may_run

    async def _run(self, context: Any, run: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """What a tool answers, piece by piece."""
        with running_for(self.gate.privilege, context.invocation_state.get(_may_run_key(context.agent))):
            async for event in run(context):
                yield event

    def _callable(self, agent: Any) -> dict[str, Any]:
        """The tools that an agent may call, by name."""
        specs, _ = _parted(agent)
        return {spec["name"]: spec for spec in self.gate.may_be_offered(specs.values())}


class _SearchTool(PythonAgentTool):
    """A tool of the tool search."""


def _parted(agent: Any, listed: Any = None) -> tuple[dict[str, Any], list[Any]]:
    """What the gate is told of an agent's tools, by name, and the definitions of the tool search."""
    registry = agent.tool_registry
    specs = registry.get_all_tool_specs() if listed is None else listed
    own = {name for name, tool in registry.registry.items() if isinstance(tool, _SearchTool)}
    told = {spec["name"]: _definition(spec) for spec in specs if spec["name"] not in own}
    by_name = {spec["name"]: spec for spec in specs if spec["name"] in own}
    return told, [by_name[tool.name] for tool in TOOL_SEARCH if tool.name in by_name]


def _definition(spec: Any) -> dict[str, Any]:
    """A tool as the gate reads it."""
    schema = spec.get("inputSchema") or {}
    return {
        "name": spec["name"],
        "description": spec["description"],
        "inputSchema": schema.get("json", schema),
    }


def _result(tool_use: Any, text: str, status: str = "success") -> Any:
    return {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": text}]}


def _may_run_key(agent: Any) -> str:
    """Where the state of an invocation, which agents of a graph share, says what an agent may run."""
    return f"camdf_may_run_{id(agent)}"


def _standing(context: Any) -> list[Any]:
    """The messages of a request without what plugins put into it alone, such as memories."""
    messages = list(context.messages)
    passing = getattr(context, "dynamic_trailing_blocks", 0)
    if passing:
        messages[-1] = {**messages[-1], "content": messages[-1]["content"][:-passing]}
    return messages


def _read_messages(agent: Any, messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages as OpenAI's chat has them; a summary of the agent's own is not the user's."""
    manager = agent.conversation_manager
    summary = manager.get_state().get("summary_message") or {"content": None}
    return [_read_message(message, is_summary=message["content"] == summary["content"]) for message in messages]


def _read_message(message: Any, *, is_summary: bool) -> dict[str, Any]:
    """A message as OpenAI's chat has it; the prompt that asks for a structured answer is not the user's."""
    blocks = message["content"]
    texts = [block["text"] for block in blocks if "text" in block]
    uses = [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in blocks if "toolUse" in block]
    role = message["role"]
    if any("toolResult" in block for block in blocks) or texts == [DEFAULT_STRUCTURED_OUTPUT_PROMPT]:
        role = "tool"
    elif role == "user" and (is_summary or any(words in "".join(texts) for words in OTHERS_WORDS)):
        role = SUMMARY
    return chat_message(role, texts, uses)
