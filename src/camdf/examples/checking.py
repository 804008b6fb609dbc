"""Are these examples any good? Which tools lack some, which two are taken for each other, what no ranking finds.

Each example is ranked by the others: a fifth of them is left out in turn, and a ranking that has the rest must find
the tools that they need. What it does not find is a near-duplicate among the tools, a description that says too little,
or a poor example.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from math import log1p
from typing import Any, TypeAlias

import numpy as np

from camdf.core.rankings import Floats
from camdf.datasets.examples import Example
from camdf.examples.answers import plain
from camdf.runtime.progress import Progress, counted, silent
from camdf.scorers.base import Scorer, checked, full_text
from camdf.scorers.bm25 import BM25, word_parts
from camdf.scorers.echoes import runs_of
from camdf.scorers.start import Start
from camdf.tools import Tool

Ranking: TypeAlias = Callable[[Sequence[Example]], Scorer]
"""Makes a scorer that has read some examples."""

FIFTHS = 5
"""A fifth of the examples is ranked by the others, five times."""

BEST = 8
"""A ranking finds a request if it has all needed tools among so many of the best."""

ONE_IN = 5
"""Of a short list, if it has them among the best fifth."""

OFTEN = 0.3
"""Two tools are near-duplicates if one comes first for this share of the other's requests."""

TWICE = 2
"""And for so many of them at least."""


@dataclass(frozen=True)
class Check:
    """What there is to say of some examples."""

    coverage: Mapping[str, Mapping[str, int]]
    """By tool: how many examples in which language."""

    origins: Mapping[str, int]
    languages: Mapping[str, int]
    """How many examples, by who wrote them and by language; the most frequent first."""

    lacking: Mapping[str, tuple[str, ...]]
    """Tools that have no example in some of the languages, and these languages."""

    unknown: tuple[str, ...]
    """Tools that examples name and that are not in the list."""

    repeated: Mapping[str, tuple[str, ...]]
    """Requests that stand in several examples, and the tools that these need."""

    best: int
    """Among how many tools the needed ones must be."""

    shares: Mapping[str, float]
    """By ranking: the share of requests whose needed tools are all among the best."""

    near_duplicates: tuple[tuple[str, str, int, int], ...]
    """A tool, the tool that came first, for how many of the first tool's requests, and of how many; by the ranking that
    finds most."""

    missed: tuple[Example, ...] = field(repr=False)
    """Examples that no ranking finds, those in the most frequent language first."""

    @property
    def complete(self) -> bool:
        """Whether every tool has an example in every language, and every example names tools of the list."""
        return not self.lacking and not self.unknown

    def as_record(self) -> dict[str, Any]:
        """The check as JSON has it."""
        return {**vars(self), "missed": [example.as_record() for example in self.missed], "complete": self.complete}


def check_examples(
    examples: Sequence[Example],
    tools: Mapping[str, Tool],
    languages: Iterable[str] = (),
    rankings: Mapping[str, Ranking] | None = None,
    progress: Progress = silent,
) -> Check:
    """Check examples against the tools that they are for, by name.

    `languages` are those in which every tool should have an example: those of the examples themselves if none is named.
    `rankings` are by name; the default are those that are installed.
    """
    counts = Counter((name, example.language) for example in examples for name in example.right)
    spoken = dict(Counter(example.language for example in examples).most_common())
    wanted = tuple(languages) or tuple(filter(None, spoken)) or ("",)
    lacking = {name: _lacking(counts, name, wanted) for name in tools}
    unknown = sorted({name for example in examples for name in example.right} - tools.keys())
    known = [example for example in examples if example.right and tools.keys() >= {*example.right}]
    best = min(BEST, max(1, len(tools) // ONE_IN))
    if rankings is None:
        rankings = installed_rankings()
    scores = {name: held_out(known, tools, ranking, progress) for name, ranking in rankings.items()}
    places = {name: place for place, name in enumerate(tools)}
    hits = {name: _hits(known, places, scored, best) for name, scored in scores.items()}
    shares = {name: float(np.mean(hit)) if known else 0.0 for name, hit in hits.items()}
    first = max(shares, key=lambda name: shares[name])
    hit_by_any = map(any, zip(*hits.values(), strict=True))
    missed = [example for example, hit in zip(known, hit_by_any, strict=True) if not hit]
    frequent = list(spoken)
    return Check(
        coverage={name: _coverage(counts, name, frequent) for name in tools},
        origins=dict(Counter(example.origin for example in examples).most_common()),
        languages=spoken,
        lacking={name: missing for name, missing in lacking.items() if missing},
        unknown=tuple(unknown),
        repeated=_repeated(examples),
        best=best,
        shares=shares,
        near_duplicates=tuple(_near_duplicates(known, list(tools), scores[first])),
        missed=tuple(sorted(missed, key=lambda example: frequent.index(example.language))),
    )


def _coverage(counts: Counter[tuple[str, str]], tool: str, languages: Iterable[str]) -> dict[str, int]:
    """How many examples a tool has, in the languages in which it has some."""
    return {language: counts[tool, language] for language in languages if counts[tool, language]}


def _lacking(counts: Counter[tuple[str, str]], tool: str, languages: Iterable[str]) -> tuple[str, ...]:
    """The languages in which a tool has no example."""
    return tuple(language for language in languages if not counts[tool, language])


def held_out(
    examples: Sequence[Example], tools: Mapping[str, Tool], ranking: Ranking, progress: Progress = silent
) -> Floats:
    """(n, m): the scores of all tools for each example, by a ranking that has not read it or any with the same text."""
    listed = list(tools.values())
    scores = np.zeros((len(examples), len(listed)))
    parts = np.array([zlib.crc32(plain(example.text).encode()) % FIFTHS for example in examples], dtype=int)
    for part in counted(range(FIFTHS), FIFTHS, progress):
        scorer = ranking([example for example, its_part in zip(examples, parts, strict=True) if its_part != part])
        for place in np.flatnonzero(parts == part).tolist():
            scores[place] = checked(scorer(examples[place].text, listed), listed)
    return scores


def installed_rankings() -> dict[str, Ranking]:
    """Rankings of tools by their own text and their examples: by words alone, or by more where it is installed."""
    rankings: dict[str, Ranking] = {}
    if find_spec("bm25s"):
        rankings["parts of words"] = lambda examples: BM25(text=_text_with_examples(examples), tokens=word_parts)
        if find_spec("wordllama"):
            rankings["start"] = lambda examples: Start(text=_text_with_examples(examples))
    return rankings or {"words": SharedRuns}


class SharedRuns:
    """Scores by the runs of letters that a request shares with the text of a tool or with its examples.

        sum over the request's runs of log(1 + m / m_r) * t / (t + 1)

    where m counts the tools, m_r those that have the run r, and t the texts of the tool that have it. Needs no extra.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        self._runs = [(example.right, runs_of(example.text)) for example in examples]
        self._index: tuple[Sequence[Tool], dict[str, list[tuple[int, float]]]] | None = None

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        """One score a tool."""
        if self._index is None or self._index[0] is not tools:
            self._index = tools, self._indexed(tools)
        scores = [0.0] * len(tools)
        for run in runs_of(task):
            for place, weight in self._index[1].get(run, ()):
                scores[place] += weight
        return scores

    def _indexed(self, tools: Sequence[Tool]) -> dict[str, list[tuple[int, float]]]:
        places = {tool.full_name: place for place, tool in enumerate(tools)}
        texts = [Counter(runs_of(full_text(tool))) for tool in tools]
        for names, runs in self._runs:
            for name in names:
                texts[places[name]].update(runs)
        rare = {run: log1p(len(tools) / count) for run, count in Counter(chain.from_iterable(texts)).items()}
        index: dict[str, list[tuple[int, float]]] = {}
        for place, counts in enumerate(texts):
            for run, count in counts.items():
                index.setdefault(run, []).append((place, rare[run] * count / (count + 1.0)))
        return index


def _text_with_examples(examples: Sequence[Example]) -> Callable[[Tool], str]:
    """The text of a tool and of its examples, as one."""
    texts: dict[str, list[str]] = {}
    for example in examples:
        for name in example.right:
            texts.setdefault(name, []).append(example.text)
    return lambda tool: " ".join([full_text(tool), *texts.get(tool.full_name, ())])


def _hits(examples: Sequence[Example], places: Mapping[str, int], scores: Floats, best: int) -> list[bool]:
    """Whether all needed tools of each example are among the best, ties counted against them.

    Where one of several tools will do, one of them must be.
    """
    hits = []
    for example, row in zip(examples, scores, strict=True):
        rank_of = {name: int((row >= row[places[name]]).sum()) for name in example.right}
        groups = [*((name,) for name in example.needed), *example.alternatives]
        most = max(best, len(groups))
        ranks = [min(map(rank_of.__getitem__, group)) for group in groups]
        hits.append(all(rank <= most for rank in ranks))
    return hits


def _near_duplicates(
    examples: Sequence[Example], names: Sequence[str], scores: Floats
) -> Iterable[tuple[str, str, int, int]]:
    """Tools whose own requests often rank another tool first, the worst pairs before the others."""
    single = [place for place, example in enumerate(examples) if len(example.right) == 1]
    total = Counter(examples[place].right for place in single)
    taken: Counter[tuple[str, str]] = Counter()
    for place in single:
        [own] = examples[place].right
        first = names[int(scores[place].argmax())]
        if first != own and scores[place].max() > scores[place][names.index(own)]:
            taken[own, first] += 1
    pairs = [(own, first, count, total[own,]) for (own, first), count in taken.items()]
    often = [pair for pair in pairs if pair[2] >= max(TWICE, OFTEN * pair[3])]
    return sorted(often, key=lambda pair: (-pair[2] / pair[3], pair))


def _repeated(examples: Sequence[Example]) -> dict[str, tuple[str, ...]]:
    texts: dict[str, list[Example]] = {}
    for example in examples:
        texts.setdefault(plain(example.text), []).append(example)
    return {same[0].text: _tools_of(same) for same in texts.values() if len(same) > 1}


def _tools_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """The tools that some examples need, each once."""
    return tuple(dict.fromkeys(name for example in examples for name in example.right))
