"""The LlamaIndex adapter inside real LlamaIndex agents, over HTTP.

`ScriptedModel` stands in for the model wherever a loop must be driven: the local model of 135 million parameters never
calls a tool on purpose. One run goes through that local model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

pytest.importorskip("llama_index.core", minversion="0.14")

import httpx
from llama_index.core import SummaryIndex, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.memory import Memory
from llama_index.core.objects import ObjectIndex, ObjectRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike

from camdf.gate import Gate
from camdf.integrations.llama_index import ToolGate
from camdf.tools import Tool
from golden import PAYOFF, VECTORS, Vector, golden_gate, overlap, words
from local_llm import local_llm
from pages import BLOCK, run_page
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[2]
PAGE, EXAMPLE = ROOT / "docs" / "integrations" / "llama_index.md", ROOT / "examples" / "with_llama_index.py"
TRIP, WEATHER, MAIL = VECTORS[:3]


class WordVectors(BaseEmbedding):
    """Words hashed into 64 numbers: enough for a vector index to rank by."""

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [1e-6] * 64
        for word in words(text.replace("_", " ")):
            vector[crc32(word.encode()) % 64] += 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Scored(BaseRetriever):
    """Finds every node of an index, with scores of its own."""

    def __init__(self, index: Any, scores: Sequence[float | None]) -> None:
        super().__init__()
        self.index, self.scores, self.queries = index, scores, list[str]()

    def _retrieve(self, query_bundle: Any) -> list[Any]:
        self.queries.append(query_bundle.query_str)
        nodes = self.index.as_retriever().retrieve(query_bundle)
        return [NodeWithScore(node=each.node, score=score) for each, score in zip(nodes, self.scores, strict=True)]


def natives(tools: dict[str, str]) -> list[FunctionTool]:
    def running(name: str) -> Any:
        return lambda: f"{name} ran"

    return [FunctionTool.from_defaults(fn=running(name), name=name, description=text) for name, text in tools.items()]


def every_tool(tools: dict[str, str]) -> Any:
    """A retriever that finds all tools in their order, without scores."""
    return ObjectIndex.from_objects(natives(tools), index_cls=SummaryIndex).as_retriever()


def nearest(tools: dict[str, str], top: int) -> Any:
    """A retriever that finds the nearest tools, with their similarities."""
    index = ObjectIndex.from_objects(natives(tools), index_cls=VectorStoreIndex, embed_model=WordVectors())
    return index.as_retriever(similarity_top_k=top)


def chat(url: str, **settings: Any) -> OpenAILike:
    return OpenAILike(
        api_base=url,
        api_key="none",
        model="scripted",
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
        **settings,
    )


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as served:
        yield served


def gated(model: ScriptedModel, retriever: Any = None, gate: Gate | None = None, **settings: Any) -> FunctionAgent:
    wrapped = ToolGate(gate or golden_gate(), retriever or every_tool(TRIP.tools))
    return FunctionAgent(tool_retriever=wrapped, llm=chat(model.url), **settings)


def run(agent: Any, *tasks: str, **settings: Any) -> list[Any]:
    """The answers to turns of one conversation."""

    async def turns() -> list[Any]:
        ctx = Context(agent)
        return [await agent.run(task, ctx=ctx, **settings) for task in tasks]

    return asyncio.run(turns())


def outcomes(answer: Any) -> list[str]:
    return [str(call.tool_output.content) for call in answer.tool_calls]


def test_llama_index_has_every_hook_that_the_adapter_relies_on() -> None:
    parameters = ["self", "retriever", "object_node_mapping", "node_postprocessors"]
    assert list(inspect.signature(ObjectRetriever.__init__).parameters) == parameters
    for name in ("retrieve", "aretrieve"):
        assert list(inspect.signature(getattr(ObjectRetriever, name)).parameters) == ["self", "str_or_query_bundle"]
    for name in ("retriever", "object_node_mapping", "node_postprocessors"):
        assert isinstance(getattr(ObjectRetriever, name), property)
    for name in ("postprocess_nodes", "apostprocess_nodes"):
        assert "query_bundle" in inspect.signature(getattr(BaseNodePostprocessor, name)).parameters
    assert {"node", "score"} <= set(NodeWithScore.model_fields)
    assert list(inspect.signature(Context.get_step_context).parameters) == []
    assert "session_id" in Memory.model_fields
    assert FunctionAgent.model_fields["tool_retriever"].annotation == ObjectRetriever | None


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_the_model_gets_exactly_the_kept_tools_in_order(vector: Vector, model: ScriptedModel) -> None:
    (answer,) = run(gated(model, every_tool(vector.tools)), vector.task)
    assert str(answer) == "done"
    assert model.tool_names() == vector.kept


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_retrieving_without_an_agent_decides_the_same(vector: Vector) -> None:
    retriever = ToolGate(golden_gate(), every_tool(vector.tools))
    assert [tool.metadata.name for tool in retriever.retrieve(vector.task)] == vector.kept
    assert [tool.metadata.name for tool in asyncio.run(retriever.aretrieve(QueryBundle(vector.task)))] == vector.kept


def test_a_real_local_model_answers_with_the_kept_tools_on_the_wire() -> None:
    sent: list[dict[str, Any]] = []

    async def note(request: httpx.Request) -> None:
        sent.append(json.loads(request.content))

    async def ask(url: str) -> Any:
        client = httpx.AsyncClient(event_hooks={"request": [note]}, timeout=300)
        llm = chat(url, async_http_client=client, max_tokens=24, temperature=0.0, timeout=300)
        agent = FunctionAgent(tool_retriever=ToolGate(golden_gate(), every_tool(TRIP.tools)), llm=llm)
        return await agent.run(TRIP.task, max_iterations=2, early_stopping_method="generate")

    with local_llm() as url:
        answer = asyncio.run(ask(url))
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == TRIP.kept
    assert str(answer).strip()


@pytest.mark.parametrize("retriever", ["every tool", "the nearest five"])
def test_ten_turns_of_a_context_never_lose_or_move_a_tool(retriever: str, model: ScriptedModel) -> None:
    """Also where the retriever no longer finds a tool that an earlier turn was given."""
    tasks = [vector.task for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task] * 2
    found = every_tool(TRIP.tools) if retriever == "every tool" else nearest(TRIP.tools, 5)
    run(gated(model, found), *tasks[:10])
    lists = [json.dumps(request.get("tools", []))[:-1] for request in model.requests]
    assert len(lists) == 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(lists))
    assert len(lists[0]) < len(lists[-1])


def test_contexts_are_decided_apart(model: ScriptedModel) -> None:
    agent = gated(model)
    run(agent, TRIP.task)
    run(agent, MAIL.task)
    assert [model.tool_names(0), model.tool_names(1)] == [TRIP.kept, MAIL.kept]


def test_a_memory_with_a_session_is_a_conversation_over_contexts(model: ScriptedModel) -> None:
    gate = golden_gate()
    for task in (TRIP.task, MAIL.task):
        run(gated(model, gate=gate), task, memory=Memory.from_defaults(session_id="visitor"))
    assert model.tool_names(1) == [*TRIP.kept, *MAIL.kept]
    assert gate.memory.recall("visitor/") is not None


def test_a_run_scores_once_however_often_it_calls_the_model(model: ScriptedModel) -> None:
    scored: list[str] = []

    def counting(task: str, tools: Sequence[Tool]) -> list[float]:
        scored.append(task)
        return overlap(task, tools)

    model.script = [Call("book_flight"), Call("book_hotel")]
    run(gated(model, gate=Gate(golden_gate().policy, counting, PAYOFF)), TRIP.task)
    assert [model.tool_names(request) for request in range(3)] == [TRIP.kept] * 3
    assert scored == [TRIP.task]


def test_llama_index_retrieves_with_the_name_of_a_called_tool_and_the_gate_with_the_task(model: ScriptedModel) -> None:
    index = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex)
    watched = Scored(index.index, [None] * len(TRIP.tools))
    model.script = [Call("book_flight")]
    plain = ObjectRetriever(watched, index.object_node_mapping)
    run(FunctionAgent(tool_retriever=plain, llm=chat(model.url)), TRIP.task)
    assert watched.queries == [TRIP.task, "book_flight", TRIP.task]
    watched.queries.clear()
    model.script = [Call("book_flight")]
    run(gated(model, plain), TRIP.task)
    assert watched.queries == [TRIP.task] * 3


@pytest.mark.parametrize("name", TRIP.kept)
def test_every_kept_tool_runs_when_it_is_called(name: str, model: ScriptedModel) -> None:
    """A gate asked about the name as if it were a task would cut what the model has just chosen."""
    model.script = [Call(name)]
    (answer,) = run(gated(model, nearest(TRIP.tools, len(TRIP.tools))), TRIP.task)
    assert outcomes(answer) == [f"{name} ran"]


def test_a_called_tool_runs_though_its_name_does_not_retrieve_it(model: ScriptedModel) -> None:
    tools = {"x1": "Book a flight for a passenger", "x2": "Play a song"}
    gate = golden_gate(at_least=1)
    (wanted,) = nearest(tools, 1).retrieve("Book a flight")
    assert wanted.metadata.name == "x1"
    model.script = [Call("x1")]
    (answer,) = run(gated(model, nearest(tools, 1), gate), "Book a flight")
    assert outcomes(answer) == ["x1 ran"]


def test_a_cut_tool_runs_when_called_from_memory_and_is_offered_from_then_on(model: ScriptedModel) -> None:
    model.script = [Call("play_music")]
    (answer,) = run(gated(model), TRIP.task)
    assert outcomes(answer) == ["play_music ran"]
    assert model.tool_names(0) == TRIP.kept
    assert model.tool_names(1) == [*TRIP.kept, "play_music"]


def test_a_tool_of_an_earlier_conversation_runs_when_called_from_memory(model: ScriptedModel) -> None:
    agent = gated(model, nearest(TRIP.tools, 5))
    run(agent, "Play a song")
    model.script = [Call("play_music")]
    (answer,) = run(agent, TRIP.task)
    assert "play_music" not in model.tool_names(1)
    assert outcomes(answer) == ["play_music ran"]
    assert model.tool_names(2) == [*model.tool_names(1), "play_music"]


def test_a_tool_that_may_not_be_offered_does_not_run(model: ScriptedModel) -> None:
    model.script = [Call("run_sql")]
    (answer,) = run(gated(model, gate=golden_gate(allow=lambda tool: tool.name != "run_sql")), TRIP.task)
    assert outcomes(answer) == ["Tool run_sql not found. Please select a tool that is available."]


def test_a_call_to_a_tool_that_does_not_exist_changes_nothing(model: ScriptedModel) -> None:
    model.script = [Call("translate_text_into_song")]
    (answer,) = run(gated(model), TRIP.task)
    assert outcomes(answer) == ["Tool translate_text_into_song not found. Please select a tool that is available."]
    assert model.tool_names(0) == model.tool_names(1) == TRIP.kept


def test_a_gate_without_a_scorer_goes_by_the_retriever_s_scores(model: ScriptedModel) -> None:
    index = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex)
    scores = overlap(TRIP.task, [Tool(name, text) for name, text in TRIP.tools.items()])
    found = ObjectRetriever(Scored(index.index, scores), index.object_node_mapping)
    gate = Gate(golden_gate().policy, payoff=PAYOFF)
    run(gated(model, found, gate), TRIP.task)
    assert model.tool_names() == TRIP.kept
    assert gate.counts["decided"] == 1


def test_a_gate_with_a_scorer_does_not_go_by_the_retriever_s_scores(model: ScriptedModel) -> None:
    index = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex)
    run(
        gated(model, ObjectRetriever(Scored(index.index, [1.0] * len(TRIP.tools)), index.object_node_mapping)),
        TRIP.task,
    )
    assert model.tool_names() == TRIP.kept


def test_a_similarity_below_zero_counts_as_zero(model: ScriptedModel) -> None:
    index = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex)
    kept = []
    for worst in (0.0, -0.7):
        found = ObjectRetriever(Scored(index.index, [0.9] + [worst] * (len(TRIP.tools) - 1)), index.object_node_mapping)
        gate = Gate(golden_gate().policy, payoff=PAYOFF)
        run(gated(model, found, gate), TRIP.task)
        assert gate.counts["decided"] == 1
        kept.append(model.tool_names(-1))
    assert kept[0] == kept[1] != list(TRIP.tools)


def test_scores_that_are_missing_leave_every_tool_to_a_gate_without_a_scorer(model: ScriptedModel) -> None:
    run(gated(model, gate=Gate(golden_gate().policy, payoff=PAYOFF)), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


def test_a_scorer_that_raises_leaves_every_tool(model: ScriptedModel) -> None:
    def broken(task: str, tools: Sequence[Tool]) -> list[float]:
        raise RuntimeError("no scores today")

    gate = Gate(golden_gate().policy, broken, PAYOFF)
    run(gated(model, gate=gate), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)
    assert gate.counts["scorer failed"] == 1


def test_shadow_cuts_nothing(model: ScriptedModel) -> None:
    run(gated(model, gate=golden_gate(mode="shadow")), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


def test_a_slow_scorer_does_not_hold_up_the_event_loop() -> None:
    def slow(task: str, tools: Sequence[Tool]) -> list[float]:
        time.sleep(0.5)
        return overlap(task, tools)

    async def turns_of_the_loop() -> int:
        retriever = ToolGate(Gate(golden_gate().policy, slow, PAYOFF), every_tool(TRIP.tools))
        waiting = asyncio.ensure_future(retriever.aretrieve(TRIP.task))
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns

    assert asyncio.run(turns_of_the_loop()) > 3


def test_llama_index_runs_node_postprocessors_on_the_event_loop_itself() -> None:
    """Why the adapter is a retriever."""
    on_the_loop: list[bool] = []

    class Watch(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            on_the_loop.append(asyncio.get_running_loop().is_running())
            return nodes

    plain = every_tool(TRIP.tools)
    asyncio.run(ObjectRetriever(plain.retriever, plain.object_node_mapping, [Watch()]).aretrieve(TRIP.task))
    assert on_the_loop == [True]


def test_node_postprocessors_of_the_retriever_still_run(model: ScriptedModel) -> None:
    class First(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            return nodes[:1]

    plain = every_tool(TRIP.tools)
    first = ToolGate(
        golden_gate(pinned=TRIP.tools), ObjectRetriever(plain.retriever, plain.object_node_mapping, [First()])
    )
    assert [tool.metadata.name for tool in first.retrieve(TRIP.task)] == ["get_weather"]
    assert [tool.metadata.name for tool in asyncio.run(first.aretrieve(TRIP.task))] == ["get_weather"]


def test_prices_see_the_schema_of_a_tool(model: ScriptedModel) -> None:
    def book(passenger: str) -> str:
        return passenger

    schemas: list[Any] = []

    def price(tool: Tool) -> float:
        schemas.append(tool.schema)
        return 1.0

    index = ObjectIndex.from_objects([FunctionTool.from_defaults(fn=book)], index_cls=SummaryIndex)
    ToolGate(golden_gate(prices=price), index.as_retriever()).retrieve("Book a flight")
    assert list(schemas[0]["properties"]) == ["passenger"]


def test_handoffs_are_never_cut_and_two_agents_are_two_conversations(model: ScriptedModel) -> None:
    gate = golden_gate()
    clerk = gated(model, gate=gate, name="clerk", description="Books", can_handoff_to=["sales"])
    sales = gated(model, gate=gate, name="sales", description="Sells")
    model.script = [Call("handoff", {"to_agent": "sales", "reason": "why not"})]
    run(AgentWorkflow(agents=[clerk, sales], root_agent="clerk"), TRIP.task)
    assert model.tool_names(0) == [*TRIP.kept, "handoff"]
    assert model.tool_names(1)[: len(TRIP.kept)] == TRIP.kept
    assert {name.partition("/")[2] for name in gate.memory._kept} == {"clerk", "sales"}


def test_the_page_shows_the_example_and_both_print_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    assert run_page(PAGE) == 1
    (block,) = BLOCK.finditer(PAGE.read_text(encoding="utf-8"))
    assert block["code"] == EXAMPLE.read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == block["printed"]
