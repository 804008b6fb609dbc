"""Strands Agents: a plugin that gives the model of an agent the tools that its conversation deserves.

    agent = Agent(model, tools=tools, plugins=[ToolGate(gate)])

The conversation is the agent's messages, so any worker that has them decides the same, and nothing is kept here. The
tool search is two tools of the agent, `find_tool` and `call_tool`. The history has a `call_tool` as the model wrote it;
the hooks after this plugin's, interrupts, middleware and traces see the tool that it means.
"""

from __future__ import annotations

from typing import Any

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import CALL, FIND, TOOL_SEARCH, ToolCall, fits, listing, meant, query_of
from camdf.integrations.chat import chat_message, refusal

with needs("strands"):
    from strands.hooks import BeforeToolCallEvent
    from strands.middleware import InvokeModelStage
    from strands.plugins import Plugin
    from strands.tools.structured_output import DEFAULT_STRUCTURED_OUTPUT_PROMPT
    from strands.tools.tools import PythonAgentTool

HANDOFF = "handoff_to_agent"
"""The tool that a swarm gives to its agents."""


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
        agent.add_hook(self._as_meant, BeforeToolCallEvent)

    async def _cut(self, context: Any) -> Any:
        specs, search = _parted(context.agent, context.tool_specs)
        if getattr(context.model, "stateful", False):  # the provider holds the history
            history = []
            keep = list(specs)
        else:
            history = [_read_message(message) for message in context.messages]
            answer = getattr(context.structured_output_model, "__name__", None)
            keep = list(filter(None, (HANDOFF, answer)))
        choice = (context.tool_choice or {}).get("tool") or {}
        decision = await self.gate.adecide(
            history,
            specs.values(),
            conversation=getattr(getattr(context.agent, "_session_manager", None), "session_id", None),
            keep=keep,
            forced=list(filter(None, [choice.get("name")])),
            tool_search=bool(search),
        )
        whole = {spec["name"]: spec for spec in context.tool_specs}
        offered = [whole[spec["name"]] for spec in decision.head]
        if decision.search:
            pairs = zip(search, decision.search, strict=True)
            offered += [{**spec, "description": tool.description} for spec, tool in pairs]
        messages = list(context.messages)
        for place, note in decision.notes.items():
            messages[place] = {**messages[place], "content": [*messages[place]["content"], {"text": note}]}
        return context.replace(messages=messages, tool_specs=offered)

    async def _find(self, tool_use: Any, **state: Any) -> Any:
        tools = self._callable(state["agent"]).values()
        return _result(tool_use, listing(await self.gate.afind(query_of(tool_use["input"]), tools), tools))

    def _slip(self, tool_use: Any, **state: Any) -> Any:
        return _result(tool_use, str(meant(tool_use["input"], self._callable(state["agent"]))), "error")

    def _as_meant(self, event: Any) -> None:
        """Call the tool that a `call_tool` means; where it means none, `call_tool` itself says so."""
        use = event.tool_use
        name = use["name"]
        tools = self._callable(event.agent)
        if name == CALL.name and name not in tools:
            read = meant(use["input"], tools)
            if isinstance(read, ToolCall):
                event.tool_use = {**use, "name": read.name, "input": read.arguments}
        elif name not in tools and name != FIND.name and name in event.agent.tool_registry.registry:
            event.cancel_tool = refusal(name)

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


def _read_message(message: Any) -> dict[str, Any]:
    """A message as OpenAI's chat has it; the prompt that asks for a structured answer is not the user's."""
    blocks = message["content"]
    texts = [block["text"] for block in blocks if "text" in block]
    uses = [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in blocks if "toolUse" in block]
    role = message["role"]
    if any("toolResult" in block for block in blocks) or texts == [DEFAULT_STRUCTURED_OUTPUT_PROMPT]:
        role = "tool"
    return chat_message(role, texts, uses)
