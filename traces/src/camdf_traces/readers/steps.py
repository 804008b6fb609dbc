"""What a step was, by one rule for every tracer: which tool a call ran, whether it failed, which chain is an agent."""

from __future__ import annotations

import re
from typing import Any

from camdf.gate.tool_search import CALL
from camdf_traces.readers.values import as_mapping, as_text

TOOL_SEARCH = re.compile(rf"(.*[/.:_-])?{CALL.name}")
"""The gate's `call_tool`, with or without a server's name before it."""

UNNAMED_AGENTS = ("LangGraph", "AgentExecutor")
"""What LangChain calls the graph or the executor of an agent to which nobody gave a name."""

LLAMA_INDEX_AGENTS = re.compile(r"\w*Agent(Workflow)?\.(run|workflow)")
"""What tracers call the run of LlamaIndex's agents: by their class, such as `FunctionAgent.run`."""


def tool_that_ran(name: Any, arguments: Any) -> str:
    """The tool that a call ran: through the gate's tool search that is the one which the arguments name."""
    named = as_text(name)
    if not (named.endswith(CALL.name) and TOOL_SEARCH.fullmatch(named)):
        return named
    inner = as_mapping(arguments)
    within = as_mapping(inner.get("kwargs") or inner.get("input") or inner)  # some tracers wrap the arguments
    return as_text(within.get("name")) or named


def reported_error(answer: Any) -> str:
    """An error that a tool did not raise but gave to the model as its answer.

    LangChain's messages, the results of MCP and those of LlamaIndex say so.
    """
    fields = as_mapping(answer)
    if not fields:
        return ""
    for key in ("output", "data", "kwargs"):  # tracers wrap LangChain's messages
        fields = as_mapping(fields.get(key)) or fields
    message = fields.get("type") == "tool" or "tool_call_id" in fields
    failed = (message and fields.get("status") == "error") or True in (fields.get("isError"), fields.get("is_error"))
    return "error" if failed else ""


def kind_of_chain(kind: str, name: Any, metadata: Any) -> str:
    """`kind` as a tracer has it, or what the framework says of a chain: `agent`, or `other` for a step of one.

    All runs inside of an agent of LangChain have its name in their metadata; its own run has it as its name too.
    Tracers take a node for an agent that only has the word in its name.
    """
    known = as_mapping(metadata)
    if kind not in ("agent", "other") or not isinstance(name, str) or not name:
        return kind
    if name in UNNAMED_AGENTS or name == known.get("lc_agent_name") or LLAMA_INDEX_AGENTS.fullmatch(name):
        return "agent"
    return "other" if name == known.get("langgraph_node") else kind
