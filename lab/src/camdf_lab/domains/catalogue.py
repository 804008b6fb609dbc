"""The domains that ship: how large each is, where it comes from, under which license, and who made its labels.

`DOMAINS` are the nine that this package was developed on. `LATER_DOMAINS` are eight that were fixed before any score
was computed, and first evaluated by frozen code; figures on them are reported apart. Of `MIXED_DOMAINS` some tasks need
no tool at all; one study looks at them (`camdf_lab.beyond.none_needed`).
"""

from __future__ import annotations

from dataclasses import dataclass

from camdf.errors import UsageError


@dataclass(frozen=True)
class Domain:
    """One benchmark as it ships: sizes, rankings, origin.

    `scorers` names the rankings, the default one first. `tools` counts the whole catalogue, which the cost rule
    averages over; a task's list may hold fewer. `labels` says what "required" means here. `ranked_in_file` is True
    where the raw scores were rounded after ranking, so that ties keep the order of the source file.
    """

    name: str
    tasks: int
    tools: int
    scorers: tuple[str, ...]
    labels: str
    source: str
    url: str
    license: str
    citation: str
    ranked_in_file: bool = False


DOMAINS: tuple[Domain, ...] = (
    Domain(
        name="retail",
        tasks=67,
        tools=7,
        scorers=("claude", "claude-conservative", "claude-brief", "minilm"),
        labels="read tools among the annotated actions of the 115 test tasks; tasks with at least one",
        source="tau-bench 59a200c",
        url="https://github.com/sierra-research/tau-bench",
        license="MIT",
        citation="Yao et al., tau-bench, arXiv:2406.12045",
    ),
    Domain(
        name="airline",
        tasks=28,
        tools=6,
        scorers=("claude", "claude-conservative", "minilm"),
        labels="read tools among the annotated actions; tasks with at least one",
        source="tau2-bench a2c0247",
        url="https://github.com/sierra-research/tau2-bench",
        license="MIT",
        citation="Barres et al., tau2-bench, arXiv:2506.07982",
    ),
    Domain(
        name="telecom",
        tasks=114,
        tools=21,
        scorers=("claude", "minilm"),
        labels=(
            "derived by a rule table from the injected faults and the support manual; the model that wrote the rules "
            "had scored the tasks before, so the claude scores partly agree with themselves; only 5 distinct requests"
        ),
        source="tau2-bench a2c0247",
        url="https://github.com/sierra-research/tau2-bench",
        license="MIT",
        citation="Barres et al., tau2-bench, arXiv:2506.07982",
    ),
    Domain(
        name="workbench",
        tasks=644,
        tools=13,
        scorers=("claude", "minilm"),
        labels=(
            "derived by a rule per template over query, slots and gold writes; the rules were written with the model "
            "family of the claude scores, which therefore partly agree with themselves"
        ),
        source="WorkBench 42f1b6d",
        url="https://github.com/olly-styles/WorkBench",
        license="MIT",
        citation="Styles et al., WorkBench, arXiv:2405.00823",
    ),
    Domain(
        name="mcp-atlas",
        tasks=170,
        tools=190,
        scorers=("claude", "minilm"),
        labels=(
            "tools called in the reference trajectory, four discovery tools left out; not proven minimal; "
            "170 of the 500 public tasks, not a random sample"
        ),
        source="MCP-Atlas by Scale AI",
        url="https://huggingface.co/datasets/ScaleAI/MCP-Atlas",
        license="CC-BY-4.0",
        citation="Bandi et al., MCP-Atlas, arXiv:2602.00933",
    ),
    Domain(
        name="metatool",
        tasks=497,
        tools=15,
        scorers=("claude", "minilm"),
        labels="the benchmark's two-tool annotations",
        source="MetaTool 35e81bb",
        url="https://github.com/HowieHwong/MetaTool",
        license="MIT",
        citation="Huang et al., MetaTool, arXiv:2310.03128",
    ),
    Domain(
        name="bfcl-multi-turn",
        tasks=200,
        tools=128,
        scorers=("bm25", "minilm"),
        labels="functions in the ground-truth turns",
        source="bfcl-eval 2026.3.23",
        url="https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard",
        license="Apache-2.0",
        citation="Patil et al., The Berkeley Function Calling Leaderboard, ICML 2025",
        ranked_in_file=True,
    ),
    Domain(
        name="livemcpbench",
        tasks=71,
        tools=527,
        scorers=("claude", "bm25", "minilm"),
        labels="tools listed by the annotators; the lists are a retriever's top 50 and often miss one",
        source="LiveMCPBench a928e57d",
        url="https://github.com/icip-cas/LiveMCPBench",
        license="Apache-2.0",
        citation="Mo et al., LiveMCPBench, arXiv:2508.01780",
        ranked_in_file=True,
    ),
    Domain(
        name="seal-tools",
        tasks=1354,
        tools=4076,
        scorers=("bm25", "minilm"),
        labels="gold API calls of both test splits; the lists are a retriever's top 50 and may miss one",
        source="Seal-Tools ce753ecd",
        url="https://github.com/fairyshine/Seal-Tools",
        license="Apache-2.0",
        citation="Wu et al., Seal-Tools, arXiv:2405.08355",
        ranked_in_file=True,
    ),
)

LATER_DOMAINS: tuple[Domain, ...] = (
    Domain(
        name="restbench-tmdb",
        tasks=100,
        tools=54,
        scorers=("claude", "minilm", "bm25"),
        labels="paths of each query's solution",
        source="RestGPT d990128",
        url="https://github.com/Yifan-Song793/RestGPT",
        license="MIT",
        citation="Song et al., RestGPT, arXiv:2306.06624",
        ranked_in_file=True,
    ),
    Domain(
        name="nestful-executable",
        tasks=85,
        tools=39,
        scorers=("claude", "minilm", "bm25"),
        labels="functions of the gold call sequence; every task needs at least two",
        source="NESTFUL 053cbde",
        url="https://github.com/IBM/NESTFUL",
        license="Apache-2.0",
        citation="Basu et al., NESTFUL, arXiv:2409.03797",
        ranked_in_file=True,
    ),
    Domain(
        name="nestful-glaive",
        tasks=159,
        tools=64,
        scorers=("minilm", "bm25"),
        labels="functions of the gold call sequence; the lists are a retriever's top 50",
        source="NESTFUL 053cbde",
        url="https://github.com/IBM/NESTFUL",
        license="Apache-2.0",
        citation="Basu et al., NESTFUL, arXiv:2409.03797",
        ranked_in_file=True,
    ),
    Domain(
        name="toolalpaca",
        tasks=208,
        tools=94,
        scorers=("minilm", "bm25"),
        labels=(
            "functions of the golden answers; the catalogue joins all 21 APIs, of which the benchmark shows "
            "a task its own alone; the lists are a retriever's top 50"
        ),
        source="ToolAlpaca 1890699",
        url="https://github.com/tangqiaoyu/ToolAlpaca",
        license="Apache-2.0",
        citation="Tang et al., ToolAlpaca, arXiv:2306.05301",
        ranked_in_file=True,
    ),
    Domain(
        name="api-bank",
        tasks=212,
        tools=52,
        scorers=("minilm", "bm25"),
        labels="API calls of the dialogue, the tool search left out; the lists are a retriever's top 50",
        source="API-Bank 483554e",
        url="https://github.com/AlibabaResearch/DAMO-ConvAI",
        license="Apache-2.0",
        citation="Li et al., API-Bank, arXiv:2304.08244",
        ranked_in_file=True,
    ),
    Domain(
        name="toolsandbox",
        tasks=101,
        tools=33,
        scorers=("claude", "minilm", "bm25"),
        labels=(
            "tools that the base scenario allows, which the benchmark pads with distractors; not proven "
            "minimal; some scenarios differ in the device's state alone and share a text"
        ),
        source="ToolSandbox 165848b",
        url="https://github.com/apple/ToolSandbox",
        license="Apple's own",
        citation="Lu et al., ToolSandbox, arXiv:2408.04682",
        ranked_in_file=True,
    ),
    Domain(
        name="tau2-banking",
        tasks=90,
        tools=54,
        scorers=("claude", "minilm", "bm25"),
        labels="the assistant's annotated actions; unlocking and calling a discoverable tool count as that tool",
        source="tau2-bench a2c0247",
        url="https://github.com/sierra-research/tau2-bench",
        license="MIT",
        citation="Barres et al., tau2-bench, arXiv:2506.07982",
        ranked_in_file=True,
    ),
    Domain(
        name="stabletoolbench-g3",
        tasks=61,
        tools=44,
        scorers=("claude", "minilm", "bm25"),
        labels="the APIs that the query was generated from; not proven minimal",
        source="StableToolBench aa4ed9f",
        url="https://github.com/THUNLP-MT/StableToolBench",
        license="Apache-2.0",
        citation="Guo et al., StableToolBench, arXiv:2403.07714",
        ranked_in_file=True,
    ),
)


MIXED_DOMAINS: tuple[Domain, ...] = (
    Domain(
        name="bfcl-mixed",
        tasks=417,
        tools=528,
        scorers=("minilm", "start", "bm25"),
        labels="function names of the ground truth; 117 tasks of the irrelevance part need none",
        source="bfcl-eval 2026.3.23",
        url="https://github.com/ShishirPatil/gorilla",
        license="Apache-2.0",
        citation="Patil et al., Berkeley Function Calling Leaderboard",
        ranked_in_file=True,
    ),
    Domain(
        name="metatool-mixed",
        tasks=1094,
        tools=47,
        scorers=("minilm", "start", "bm25"),
        labels="the annotated tool, or two; 478 tasks of the awareness part need none",
        source="MetaTool 35e81bb",
        url="https://github.com/HowieHwong/MetaTool",
        license="MIT",
        citation="Huang et al., MetaTool, arXiv:2310.03128",
        ranked_in_file=True,
    ),
    Domain(
        name="sgd-first-message",
        tasks=800,
        tools=38,
        scorers=("minilm", "start", "bm25"),
        labels=(
            "every method that the assistant calls in the dialogue, of which the text, its first message, names one; "
            "200 dialogues of services that the catalogue lacks need none"
        ),
        source="Schema-Guided Dialogue e852981",
        url="https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
        license="CC-BY-SA-4.0",
        citation="Rastogi et al., Schema-Guided Dialogue, arXiv:1909.05855",
        ranked_in_file=True,
    ),
)


def find(domain: str) -> Domain:
    """The record of one domain, by name."""
    known = {record.name: record for record in (*DOMAINS, *LATER_DOMAINS, *MIXED_DOMAINS)}
    if domain not in known:
        raise UsageError(f"The 'domain' must be one of {', '.join(known)}. Got {domain!r} instead.")
    return known[domain]


def scorers(domain: str) -> tuple[str, ...]:
    """A domain's own rankings; `load` takes the first where none is named.

    >>> scorers("telecom")
    ('claude', 'minilm')
    """
    return find(domain).scorers
