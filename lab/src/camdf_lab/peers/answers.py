"""What the peers answered: one packed file of numbers, without a word of any request or description.

`benchmarks/peers.py` asks the peers and writes it. It holds, with D a domain, S a ranking and P a peer:

    D/rows          (n,): which tasks of `domains.load(D, S)` were sampled
    D/request       (n,): tokens of each request
    D/S/tokens      (n, m): tokens of every candidate's definition, in rank order; 0 at padding
    D/S/P/default   (n, m): which candidates the peer chose with its defaults
    D/S/P/places    (n, m): where each candidate stands in the peer's whole answer, from 0; -1 where it does not
    D/S/P/scores    (n, m): the similarity that the peer compares with its threshold, where it has one
    everyday/L/P/...  with L the length of a list: what benchmarks/peer_conversations.py says of everyday requests
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks
from camdf_lab import domains
from camdf_lab.stored import check_digest, digest_of_file, note_digests, there

FILE = "peers.npz"
COMMAND = "python benchmarks/peers.py ask"


@dataclass(frozen=True)
class PeerAnswer:
    """One peer over the sampled tasks of one list of candidates."""

    default: Bools
    places: Ints
    scores: Floats | None


@dataclass(frozen=True)
class Case:
    """The sampled tasks of one domain under one ranking, with what the peers made of the same candidates."""

    domain: str
    scorer: str
    rows: Ints
    request: Floats
    tokens: Floats
    peers: Mapping[str, PeerAnswer]

    @cached_property
    def logged(self) -> LoggedTasks:
        """The sampled tasks with their labels, at unit costs."""
        return domains.load(self.domain, self.scorer).take(self.rows)

    @cached_property
    def with_texts(self) -> LoggedTasks:
        """The same with a vector of each request's text."""
        return domains.load(self.domain, self.scorer, texts=True).take(self.rows)


@dataclass(frozen=True)
class Daily:
    """One way on everyday requests, and in everyday conversations, over one list of tools.

    `worst` is where the last needed tool of each request stands in the way's ranking, -1 where it does not. `talks` has
    a row a conversation: dollars, turns, turns whose needed tools were there at once, and those after one search.
    """

    worst: Ints
    talks: Floats

    def within(self, count: int) -> float:
        """The share of requests whose needed tools are all among the first so many."""
        return float(((self.worst >= 0) & (self.worst < count)).mean())

    @property
    def dollars(self) -> float:
        """Of a conversation."""
        return float(self.talks[:, 0].mean())

    @property
    def at_once(self) -> float:
        """The share of turns."""
        return float(self.talks[:, 2].sum() / self.talks[:, 1].sum())

    @property
    def after_one(self) -> float:
        """The share of turns."""
        return float(self.talks[:, 3].sum() / self.talks[:, 1].sum())


Everyday: TypeAlias = dict[str, dict[str, Daily]]
"""By list, then by way."""


def everyday(arrays: Mapping[str, Any]) -> Everyday:
    """What the ways did on everyday requests."""
    lists: Everyday = {}
    for key in arrays:
        if key.startswith("everyday/") and key.endswith("/worst"):
            _, size, name, _ = key.split("/")
            talks = arrays[f"everyday/{size}/{name}/talks"].astype(np.float64)
            lists.setdefault(size, {})[name] = Daily(arrays[key].astype(np.int64), talks)
    return lists


def write_answers(folder: Path, arrays: Mapping[str, Any]) -> None:
    """Store the arrays, and note their digest."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / FILE, **arrays)
    note_digests(folder, {FILE: digest_of_file(folder / FILE)})


def read_answers(folder: Path) -> dict[str, Any]:
    """The arrays, once the file is known to be the one whose digest was noted."""
    path = there(folder / FILE, COMMAND)
    check_digest(folder, FILE, digest_of_file(path), COMMAND)
    with np.load(path) as pack:
        return dict(pack)


def cases(folder: Path) -> list[Case]:
    """Every domain and ranking that peers were asked about."""
    return cases_of(read_answers(folder))


def cases_of(arrays: Mapping[str, Any]) -> list[Case]:
    """The same, from the arrays."""
    stored_cases = []
    for key in arrays:
        domain, _, rest = key.partition("/")
        scorer, _, what = rest.partition("/")
        if what != "tokens":
            continue
        start = f"{domain}/{scorer}/"
        width = domains.load(domain, scorer).rankings.width
        peers = [name.split("/")[2] for name in arrays if name.startswith(start) and name.endswith("/default")]
        stored_cases.append(
            Case(
                domain=domain,
                scorer=scorer,
                rows=arrays[f"{domain}/rows"].astype(np.int64),
                request=arrays[f"{domain}/request"].astype(np.float64),
                tokens=_wide(arrays[key], width).astype(np.float64),
                peers={peer: _answer_at(arrays, f"{start}{peer}", width) for peer in peers},
            )
        )
    return stored_cases


def _answer_at(arrays: Mapping[str, Any], place: str, width: int) -> PeerAnswer:
    """One peer's answer, from the arrays whose names begin with its place."""
    scores = None
    if f"{place}/scores" in arrays:
        scores = _wide(arrays[f"{place}/scores"], width).astype(np.float64)
    return PeerAnswer(
        default=_wide(arrays[f"{place}/default"], width).astype(bool),
        places=_wide(arrays[f"{place}/places"], width, -1).astype(np.int64),
        scores=scores,
    )


def _wide(array: Any, width: int, padding: int = 0) -> Any:
    """(n, width): the sample's longest list may be shorter than the domain's."""
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=padding)
