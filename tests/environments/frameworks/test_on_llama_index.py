"""The LlamaIndex adapter inside real LlamaIndex agents, over HTTP.

`ScriptedModel` stands in for the model wherever a loop must be driven: the local model of 135 million parameters never
calls a tool on purpose. One run goes through that local model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
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
from llama_index.core.llms import ChatMessage, ImageBlock
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory
from llama_index.core.objects import ObjectIndex, ObjectRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

import malformed
from camdf.gate import Gate, Guards, Rollout
from camdf.integrations.llama_index import Retrieved, ToolGate
from camdf.tools import Tool, view
from golden import VECTORS, Vector, golden_gate, openai_tool, overlap, words
from local_llm import local_llm
from pages import shows
from pauses import PAUSE, best_pause, search
from scripted import Call, ScriptedModel

ROOT = Path(__file__).parents[3]
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


def test_five_hundred_tools_do_not_hold_up_an_event_loop() -> None:
    def made(count: int) -> list[FunctionTool]:
        return [FunctionTool.from_defaults(search, name=f"t{i}", description=f"Does {i}") for i in range(count)]

    assert best_pause(made) < PAUSE


def nearest(tools: dict[str, str], top: int) -> Any:
    """A retriever that finds the nearest tools, with their similarities."""
    index = ObjectIndex.from_objects(natives(tools), index_cls=VectorStoreIndex, embed_model=WordVectors())
    return index.as_retriever(similarity_top_k=top)


def kept(vector: Vector) -> list[str]:
    """What the library keeps of a conversation that is one task."""
    tools = [openai_tool(name, text) for name, text in vector.tools.items()]
    return list(golden_gate().decide([{"role": "user", "content": vector.task}], tools).kept)


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


def gated(
    model: ScriptedModel, tools: dict[str, str] | None = None, gate: Gate | None = None, **settings: Any
) -> FunctionAgent:
    tool_search = settings.pop("tool_search", False)
    wrapped = ToolGate(gate or golden_gate(), natives(TRIP.tools if tools is None else tools), tool_search=tool_search)
    return FunctionAgent(tool_retriever=wrapped, llm=chat(model.url), **settings)


def run(agent: Any, *tasks: Any, **settings: Any) -> list[Any]:
    """The answers to turns of one conversation, whose memory the client keeps."""
    memory = settings.pop("memory", None) or ChatMemoryBuffer.from_defaults()

    async def turns() -> list[Any]:
        return [await agent.run(task, memory=memory, **settings) for task in tasks]

    return asyncio.run(turns())


def outcomes(answer: Any) -> list[str]:
    return [str(call.tool_output.content) for call in answer.tool_calls]


def test_llama_index_has_every_hook_that_the_adapter_relies_on() -> None:
    for name in ("retrieve", "aretrieve"):
        assert list(inspect.signature(getattr(ObjectRetriever, name)).parameters) == ["self", "str_or_query_bundle"]
    for name in ("retriever", "object_node_mapping", "node_postprocessors"):
        assert isinstance(getattr(ObjectRetriever, name), property)
    assert "query_bundle" in inspect.signature(BaseNodePostprocessor.postprocess_nodes).parameters
    assert {"node", "score"} <= set(NodeWithScore.model_fields)
    assert list(inspect.signature(Context.get_step_context).parameters) == []
    assert inspect.iscoroutinefunction(BaseMemory.aget_all)
    assert FunctionAgent.model_fields["scratchpad_key"].default == "scratchpad"
    assert FunctionAgent.model_fields["tool_retriever"].annotation == ObjectRetriever | None


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_the_model_gets_exactly_the_kept_tools_in_order(vector: Vector, model: ScriptedModel) -> None:
    (answer,) = run(gated(model, vector.tools), vector.task)
    assert str(answer) == "done"
    assert model.tool_names() == kept(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "nothing")
def test_outside_an_agent_a_query_is_a_task(vector: Vector) -> None:
    retriever = ToolGate(golden_gate(), natives(vector.tools), tool_search=True)
    assert [tool.metadata.name for tool in retriever.retrieve(vector.task)] == vector.kept
    assert [tool.metadata.name for tool in asyncio.run(retriever.aretrieve(QueryBundle(vector.task)))] == vector.kept


def test_a_real_local_model_answers_with_the_kept_tools_on_the_wire() -> None:
    sent: list[dict[str, Any]] = []

    async def note(request: httpx.Request) -> None:
        sent.append(json.loads(request.content))

    async def ask(url: str) -> Any:
        client = httpx.AsyncClient(event_hooks={"request": [note]}, timeout=300)
        llm = chat(url, async_http_client=client, max_tokens=24, temperature=0.0, timeout=300)
        agent = FunctionAgent(tool_retriever=ToolGate(golden_gate(), natives(TRIP.tools), tool_search=False), llm=llm)
        return await agent.run(TRIP.task, max_iterations=2, early_stopping_method="generate")

    with local_llm() as url:
        answer = asyncio.run(ask(url))
    assert [tool["function"]["name"] for tool in sent[0]["tools"]] == TRIP.kept
    assert str(answer).strip()


# Conversations.


def test_ten_turns_never_lose_or_move_a_tool(model: ScriptedModel) -> None:
    tasks = [vector.task for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task] * 2
    run(gated(model), *tasks[:10])
    lists = [json.dumps(request.get("tools", []))[:-1] for request in model.requests]
    assert len(lists) == 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(lists))
    assert len(lists[0]) < len(lists[-1])


def test_in_a_context_the_history_is_what_the_model_is_sent_of_it(model: ScriptedModel) -> None:
    async def turns() -> None:
        agent = gated(model)
        ctx = Context(agent)
        for task in (TRIP.task, MAIL.task):
            await agent.run(task, ctx=ctx)

    asyncio.run(turns())
    tools = [openai_tool(name, text) for name, text in TRIP.tools.items()]
    assert model.tool_names(1) == list(golden_gate().decide(model.requests[1]["messages"], tools).kept)


def test_memories_are_decided_apart(model: ScriptedModel) -> None:
    agent = gated(model)
    run(agent, TRIP.task)
    run(agent, MAIL.task)
    assert [model.tool_names(0), model.tool_names(1)] == [TRIP.kept, MAIL.kept]


FIRST, ASKED_BACK, FOLLOW_UP = "Book a flight and find a hotel", "Which date?", "Tomorrow please"


def test_a_follow_up_keeps_its_tools_whoever_serves_and_however_the_history_is_kept(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async def turns() -> None:
        said = [ChatMessage(role="user", content=FIRST), ChatMessage(role="assistant", content=ASKED_BACK)]
        await gated(model).run(FIRST)
        await gated(model).run(FOLLOW_UP, chat_history=said)  # the client carries the history
        for task in (FIRST, FOLLOW_UP):  # a database carries it
            memory = Memory.from_defaults(session_id="visitor", async_database_uri=f"sqlite+aiosqlite:///{tmp_path}/m")
            await gated(model).run(task, memory=memory)

    asyncio.run(turns())
    lists = [request["tools"] for request in model.requests]
    assert len(lists) == 4
    assert all(each == lists[0] for each in lists)
    assert {"book_flight", "find_hotel"} <= set(model.tool_names())
    assert len(lists[0]) < len(TRIP.tools)


@pytest.mark.parametrize("first", ["hello", ImageBlock(url="https://example.com/a.png", image_mimetype="image/png")])
def test_a_greeting_or_a_picture_opens_the_list_until_a_turn_says_something(first: Any, model: ScriptedModel) -> None:
    said = first if isinstance(first, str) else ChatMessage(role="user", blocks=[first])
    run(gated(model), said, TRIP.task)
    assert [model.tool_names(0), model.tool_names(1)] == [list(TRIP.tools), TRIP.kept]


def test_one_failure_of_the_scorer_does_not_open_a_conversation_for_good(model: ScriptedModel) -> None:
    failures = [RuntimeError("no scores now")]

    def fragile(task: str, tools: Sequence[Tool]) -> list[float]:
        if failures:
            raise failures.pop()
        return overlap(task, tools)

    run(gated(model, gate=golden_gate(fragile)), TRIP.task, TRIP.task)
    assert [model.tool_names(0), model.tool_names(1)] == [list(TRIP.tools), TRIP.kept]


def test_a_memory_that_cannot_be_read_opens_the_list(model: ScriptedModel) -> None:
    class Sealed(ChatMemoryBuffer):
        async def aget_all(self) -> Any:
            raise RuntimeError("not today")

    run(gated(model), TRIP.task, memory=Sealed.from_defaults())
    assert model.tool_names() == list(TRIP.tools)


def test_a_run_scores_once_however_often_it_calls_the_model(model: ScriptedModel) -> None:
    scored: list[str] = []

    def counting(task: str, tools: Sequence[Tool]) -> list[float]:
        scored.append(task)
        return overlap(task, tools)

    model.script = [Call("book_flight"), Call("book_hotel")]
    run(gated(model, gate=golden_gate(counting)), TRIP.task)
    assert [model.tool_names(request) for request in range(3)] == [TRIP.kept] * 3
    assert scored == [TRIP.task]


# Calls.


def test_llama_index_retrieves_with_the_name_of_a_called_tool_which_is_no_task(model: ScriptedModel) -> None:
    gate, queries = golden_gate(), []

    class Watched(ToolGate):
        async def aretrieve(self, str_or_query_bundle: Any) -> list[Any]:
            queries.append(str_or_query_bundle)
            return await super().aretrieve(str_or_query_bundle)

    model.script = [Call("book_flight")]
    run(FunctionAgent(tool_retriever=Watched(gate, natives(TRIP.tools)), llm=chat(model.url)), TRIP.task)
    assert queries == [TRIP.task, "book_flight", TRIP.task]
    assert sum(gate.counts.values()) == 2


@pytest.mark.parametrize("name", TRIP.kept)
def test_every_kept_tool_runs_when_it_is_called(name: str, model: ScriptedModel) -> None:
    model.script = [Call(name)]
    (answer,) = run(gated(model), TRIP.task)
    assert outcomes(answer) == [f"{name} ran"]


def test_a_turn_that_is_exactly_a_tool_s_name_has_that_tool(model: ScriptedModel) -> None:
    model.script = ["done", Call("play_music")]
    _, answer = run(gated(model), TRIP.task, "play_music")
    assert outcomes(answer) == ["play_music ran"]
    assert model.tool_names(1)[: len(TRIP.kept)] == TRIP.kept
    assert "play_music" in model.tool_names(1)


def test_a_cut_tool_runs_when_called_from_memory_and_is_offered_from_then_on(model: ScriptedModel) -> None:
    model.script = [Call("play_music")]
    answer, _ = run(gated(model), TRIP.task, "And now the same again, please, one more time")
    assert outcomes(answer) == ["play_music ran"]
    assert model.tool_names(0) == TRIP.kept
    assert model.tool_names(1) == model.tool_names(2) == [*TRIP.kept, "play_music"]


def test_a_tool_that_may_not_be_offered_does_not_run(model: ScriptedModel) -> None:
    model.script = [Call("run_sql")]
    (answer,) = run(gated(model, gate=golden_gate(guards=Guards(allow=lambda tool: tool.name != "run_sql"))), TRIP.task)
    assert outcomes(answer) == ["Tool run_sql not found. Please select a tool that is available."]


def test_a_call_to_a_tool_that_does_not_exist_changes_nothing(model: ScriptedModel) -> None:
    model.script = [Call("translate_text_into_song")]
    (answer,) = run(gated(model), TRIP.task)
    assert outcomes(answer) == ["Tool translate_text_into_song not found. Please select a tool that is available."]
    assert model.tool_names(0) == model.tool_names(1) == TRIP.kept


# The tool search.


TOOL_SEARCH = ["find_tool", "call_tool"]


def through(name: str, **arguments: Any) -> Call:
    return Call("call_tool", {"name": name, "arguments": arguments})


def test_a_cut_tool_is_found_and_run_and_the_list_stands(model: ScriptedModel) -> None:
    model.script = [Call("find_tool", {"query": "play a song"}), through("play_music")]
    answer, _ = run(gated(model, tool_search=True), TRIP.task, MAIL.task)
    found, ran = outcomes(answer)
    assert [entry["name"] for entry in json.loads(found)["tools"]] == ["play_music"]
    assert model.named_by_search() == set(TRIP.tools) - set(TRIP.kept)
    assert ran == "play_music ran"
    assert [model.tool_names(request) for request in range(4)] == [[*TRIP.kept, *TOOL_SEARCH]] * 4


def test_no_tool_search_where_nothing_is_cut_or_a_tool_has_its_name(model: ScriptedModel) -> None:
    run(gated(model, gate=golden_gate(guards=Guards(pinned=TRIP.tools)), tool_search=True), TRIP.task)
    run(gated(model, {**TRIP.tools, "find_tool": "Finds a tool in the shed"}, tool_search=True), TRIP.task)
    run(gated(model, gate=golden_gate(mode="shadow"), tool_search=True), TRIP.task)
    assert model.tool_names(0) == model.tool_names(2) == list(TRIP.tools)
    assert "call_tool" not in model.tool_names(1)
    run(gated(model, tool_search=True), "hello")
    assert model.tool_names(3) == ["find_tool", "call_tool"], "nothing is decided, and the model can search"


@pytest.mark.parametrize("name", ["run_sql", "nothing_of_that_name", "call_tool"])
def test_the_tool_search_leads_to_no_tool_that_is_unknown_or_may_not_be_offered(
    name: str, model: ScriptedModel
) -> None:
    model.script = [Call("find_tool", {"query": "run_sql"}), through(name)]
    gate = golden_gate(guards=Guards(allow=lambda tool: tool.name != "run_sql"))
    (answer,) = run(gated(model, gate=gate, tool_search=True), TRIP.task)
    found, refused = outcomes(answer)
    assert "run_sql" not in found
    assert (
        refused == f"There is no tool named '{name}'. Search with find_tool, and give the name as it is listed there."
    )


def test_a_tool_behind_the_search_gets_the_context_that_it_asks_for(model: ScriptedModel) -> None:
    async def remember(ctx: Context, word: str) -> str:
        """Remember a secret word."""
        return f"{word} of {await ctx.store.get('user_msg_str')}"

    remember.__annotations__["ctx"] = Context
    tools = [*natives(TRIP.tools), FunctionTool.from_defaults(remember)]
    agent = FunctionAgent(tool_retriever=ToolGate(golden_gate(), tools, tool_search=True), llm=chat(model.url))
    model.script = [through("remember", word="sesame")]
    (answer,) = run(agent, TRIP.task)
    assert outcomes(answer) == [f"sesame of {TRIP.task}"]


# Scores of an index.


def test_an_index_scores_for_a_gate(model: ScriptedModel) -> None:
    index = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex)
    scores = overlap(TRIP.task, [Tool(name, text) for name, text in TRIP.tools.items()])
    retriever = ObjectRetriever(Scored(index.index, scores), index.object_node_mapping)
    run(gated(model, gate=golden_gate(Retrieved(retriever))), TRIP.task)
    assert model.tool_names() == TRIP.kept


def test_what_an_index_does_not_find_or_finds_far_away_scores_zero() -> None:
    tools = [Tool(name, text) for name, text in TRIP.tools.items()]
    scores = Retrieved(nearest(TRIP.tools, 5))(TRIP.task, tools)
    assert sum(score > 0 for score in scores) == 5
    index = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex)
    far = ObjectRetriever(Scored(index.index, [0.9, *[-0.7] * (len(tools) - 1)]), index.object_node_mapping)
    assert Retrieved(far)(TRIP.task, tools) == [0.9, *[0.0] * (len(tools) - 1)]
    unscored = ObjectRetriever(Scored(index.index, [None] * len(tools)), index.object_node_mapping)
    assert Retrieved(unscored)(TRIP.task, tools) == [0.0] * len(tools)


def test_the_turns_of_a_conversation_widen_what_an_index_finds(model: ScriptedModel) -> None:
    run(gated(model, gate=golden_gate(Retrieved(nearest(TRIP.tools, 5)))), TRIP.task, MAIL.task)
    assert model.tool_names(1)[: len(model.tool_names(0))] == model.tool_names(0)
    assert "send_email" in set(model.tool_names(1)) - set(model.tool_names(0))


def test_an_index_without_scores_leaves_every_tool(model: ScriptedModel) -> None:
    every = ObjectIndex.from_objects(natives(TRIP.tools), index_cls=SummaryIndex).as_retriever()
    gate = golden_gate(Retrieved(every))
    run(gated(model, gate=gate), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)
    assert gate.counts["no signal"] == 1


def test_node_postprocessors_of_the_index_still_run() -> None:
    class First(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            return nodes[:1]

    plain = nearest(TRIP.tools, 5)
    found = ObjectRetriever(plain.retriever, plain.object_node_mapping, [First()])
    scores = Retrieved(found)(TRIP.task, [Tool(name, text) for name, text in TRIP.tools.items()])
    assert sum(score > 0 for score in scores) == 1


# Whatever else.


def test_a_scorer_that_raises_leaves_every_tool(model: ScriptedModel) -> None:
    def broken(task: str, tools: Sequence[Tool]) -> list[float]:
        raise RuntimeError("no scores today")

    gate = golden_gate(broken)
    run(gated(model, gate=gate), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)
    assert gate.counts["scorer failed"] == 1


@pytest.mark.parametrize("watching", [{"mode": "shadow"}, {"rollout": Rollout(0.0)}, {"rollout": Rollout(off=True)}])
def test_shadow_cuts_nothing_and_adds_no_tool_search(watching: Any, model: ScriptedModel) -> None:
    run(gated(model, gate=golden_gate(**watching), tool_search=True), TRIP.task)
    assert model.tool_names() == list(TRIP.tools)


def test_a_slow_scorer_does_not_hold_up_the_event_loop() -> None:
    def slow(task: str, tools: Sequence[Tool]) -> list[float]:
        time.sleep(0.5)
        return overlap(task, tools)

    async def turns_of_the_loop() -> int:
        retriever = ToolGate(golden_gate(slow), natives(TRIP.tools))
        waiting = asyncio.ensure_future(retriever.aretrieve(TRIP.task))
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns

    assert asyncio.run(turns_of_the_loop()) > 3


def test_prices_see_the_schema_of_a_tool() -> None:
    def book(passenger: str) -> str:
        return passenger

    schemas: list[Any] = []

    def price(tool: Tool) -> float:
        schemas.append(tool.schema)
        return 1.0

    ToolGate(golden_gate(prices=price), [FunctionTool.from_defaults(fn=book)]).retrieve("Book a flight")
    assert list(schemas[0]["properties"]) == ["passenger"]


def test_handoffs_are_never_cut_and_each_agent_has_tools_of_its_own(model: ScriptedModel) -> None:
    clerk = gated(model, name="clerk", description="Books", can_handoff_to=["sales"])
    tools = {"play_music": "Play a song", "find_hotel": "Find a hotel in a city", "run_sql": "Run a query"}
    sales = gated(model, tools, name="sales", description="Sells")
    model.script = [Call("handoff", {"to_agent": "sales", "reason": "why not"})]
    run(AgentWorkflow(agents=[clerk, sales], root_agent="clerk"), TRIP.task)
    assert model.tool_names(0) == [*TRIP.kept, "handoff"]
    assert model.tool_names(1)[0] == "find_hotel"


def test_the_page_shows_what_the_example_prints() -> None:
    assert shows(ROOT / "docs" / "integrations" / "llama_index.md", ROOT / "examples" / "with_llama_index.py")


def with_danger(deleted: list[str]) -> list[Any]:
    danger = FunctionTool.from_defaults(
        malformed.deleting(deleted), name=malformed.NAME, description=malformed.DESCRIPTION
    )
    return [*natives(TRIP.tools), danger]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_broken_call_runs_a_tool_with_what_the_model_wrote_or_not_at_all(stream: bool, model: ScriptedModel) -> None:
    deleted: list[str] = []
    broken = malformed.slips(malformed.COUNT)
    retriever = ToolGate(golden_gate(), with_danger(deleted), tool_search=True)
    agent = FunctionAgent(tool_retriever=retriever, llm=chat(model.url), streaming=stream)

    async def play() -> None:
        for calls in malformed.at_once(broken):
            model.script = [calls]
            await agent.run(TRIP.task)

    asyncio.run(play())
    malformed.check(broken, deleted)


def test_no_slip_of_a_model_ends_a_run(model: ScriptedModel) -> None:
    deleted: list[str] = []
    model.script = [*malformed.MISUSED]
    retriever = ToolGate(golden_gate(), with_danger(deleted), tool_search=True)
    run(FunctionAgent(tool_retriever=retriever, llm=chat(model.url)), TRIP.task, max_iterations=100)
    sent = [message for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert (model.script, len(sent), deleted) == ([], len(malformed.MISUSED), [])
    assert all(message["content"] for message in sent)


def test_the_server_of_a_tool_is_told_and_not_read_from_what_a_server_says() -> None:
    async def listed() -> list[Any]:
        client = BasicMCPClient(sys.executable, args=[str(Path(__file__).parent / "spoofing_server.py")])
        return list(await McpToolSpec(client).to_tool_list_async())

    spoofed = asyncio.run(listed())
    assert {view(tool).server for tool in spoofed} == {""}
    assert not any(
        golden_gate(guards=Guards(allow=["mail/assist", "mail/plain"])).may_be_offered([tool]) for tool in spoofed
    )
    retriever = ToolGate(
        golden_gate(guards=Guards(allow=["new/assist"])), {"new": spoofed, "mail": natives({"send": "Send a mail"})}
    )
    assert [view(tool).name for tool in retriever.authorized()] == ["assist"]
    assert retriever._tools_named("plain") == []
