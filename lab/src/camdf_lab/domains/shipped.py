"""The logged tasks that ship with the package: one packed file a domain, read in milliseconds with numpy alone.

A packed file is a compressed .npz without pickles, made by `scripts/pack_datasets.py`:

    tools, task_ids, groups          utf-8 bytes, one name a line; tools are the domain's whole catalogue
    required, n_required             every task's required tools one after the other, and how many each task has
    catalogue.SCORER                 the tools that this ranking lists, in the order in which they first occur
    lengths.SCORER                   candidates a task
    ids.SCORER, scores.SCORER        every task's candidates one after the other in rank order: positions in that
                                     catalogue, and score times 10,000 as a whole number
    chosen.SETTING                   (tasks, tools): the sets a model chose by itself, in retail only

Tools are given as positions in `tools`. The source's scores are decimals of at most four places, so dividing by 10,000
gives the very float that the decimal reads as. No request text and no tool description is in these files.

`tool-sizes.npz`, made by `scripts/measure_tools.py`, has for each of the nine domains `DOMAIN.PART`: (tools, 2),
characters and tokens of that part of every tool's text. `task-vectors.npz`, made by `scripts/pack_datasets.py` too, has
for every domain `DOMAIN`: (tasks, 64), the direction of every request's vector in whole numbers up to 127, and
`projection`: (64, 384), half precision; `task-vectors-mixed.npz` has those of `MIXED_DOMAINS`.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from camdf.core.rankings import Bools, Floats, LoggedTasks, Rankings
from camdf.core.vectors import at_length_one
from camdf.datasets import read
from camdf.errors import UsageError
from camdf_lab.domains.catalogue import MIXED_DOMAINS, find
from camdf_lab.domains.costs import RETAIL_BASE_COSTS, dispersed, md5_base_costs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCORE_UNITS = 10_000
"""Packed scores are whole numbers of this fraction of 1."""

SELF_SELECTED = ("uniform", "dispersed")
"""The cost settings under which Claude chose its own Retail sets: all costs 1, and dispersion 1."""


OWN = "own"
"""The name of the ranking in a file of your own."""


class ToolSize(NamedTuple):
    """The length of one tool's text: characters, and tokens of the public vocabulary o200k_base."""

    characters: int
    tokens: int


def load(
    domain: str, scorer: str | None = None, *, dispersion: float = 0.0, cost_vector: int = 0, texts: bool = False
) -> LoggedTasks:
    """The logged tasks of one domain under one ranking, priced by the paper's rule.

    `scorer` is one of `scorers(domain)`, by default the first. Candidates stand by score, best first, and ties by name
    or, where `Domain.ranked_in_file` says so, as the retriever ranked them before its scores were rounded. Costs are
    those of `costs(domain, dispersion, cost_vector)`; at dispersion 0 every tool costs 1. With `texts` the rankings
    hold the tasks' vectors (`task_vectors`).

    A domain of your own is a file of logged tasks (`camdf.datasets.read`), with the `scorer` `OWN`.

    >>> logged = load("retail", scorer="claude")
    >>> len(logged), logged.rankings.width, logged.n_required.mean().round(2)
    (67, 7, np.float64(3.73))
    """
    if scorer == OWN:
        logged = read(domain)
        return logged.with_costs(_costs(domain, logged.rankings.catalogue, dispersion, cost_vector))
    record = find(domain)
    scorer = record.scorers[0] if scorer is None else scorer
    if scorer not in record.scorers:
        known = ", ".join(record.scorers)
        raise UsageError(f"The 'scorer' of {domain} must be one of {known}. Got {scorer!r} instead.")
    with packed(domain) as pack:
        names = _lines_of(pack["tools"])
        order = pack[f"catalogue.{scorer}"].astype(np.int64)
        lengths = pack[f"lengths.{scorer}"].astype(np.int64)
        listed = np.arange(lengths.max()) < lengths[:, None]
        tool_ids = np.full(listed.shape, -1, dtype=np.int64)
        tool_ids[listed] = pack[f"ids.{scorer}"]
        scores = np.zeros(listed.shape)
        scores[listed] = pack[f"scores.{scorer}"] / SCORE_UNITS
        n_required = pack["n_required"].astype(np.int64)
        needed = np.zeros((len(lengths), len(names)), dtype=bool)
        needed[np.repeat(np.arange(len(lengths)), n_required), pack["required"]] = True
        task_ids = np.array(_lines_of(pack["task_ids"]))
        groups = np.array(_lines_of(pack["groups"]))
    required = np.take_along_axis(needed, order[tool_ids], axis=1) & listed
    catalogue = tuple(names[i] for i in order)
    prices = _costs(domain, names, dispersion, cost_vector)
    table = np.array([prices[name] for name in catalogue] + [0.0])
    vectors = task_vectors(domain) if texts else None
    rankings = Rankings(scores, table[tool_ids], lengths, tool_ids, catalogue, vectors)
    return LoggedTasks(rankings, required, n_required, task_ids, groups)


def tools(domain: str) -> tuple[str, ...]:
    """Every tool of a domain's catalogue, the ones that no ranking lists included.

    >>> len(tools("seal-tools"))
    4076
    """
    find(domain)
    with packed(domain) as pack:
        return _lines_of(pack["tools"])


def costs(domain: str, *, dispersion: float = 0.0, cost_vector: int = 0) -> dict[str, float]:
    """The price of every tool of a domain: the paper's base table in retail, its md5 rule elsewhere, then spread.

    The rule's mean is taken over the domain's whole catalogue, the tools that no ranking lists included.

    >>> costs("retail", dispersion=1.0)["calculate"]
    0.44303797468354433
    """
    return _costs(domain, tools(domain), dispersion, cost_vector)


def sizes(domain: str, part: str = "definition") -> dict[str, ToolSize]:
    """How long every tool's text is, in the order of `tools(domain)`; the texts themselves do not ship.

    `part` is "description", "definition" (name, description and an empty schema as JSON, `Tool.definition()`) or, for
    bfcl-multi-turn alone, "schema" (the definition with its parameter schema). Descriptions were cut before counting:
    mcp-atlas at 400 characters, livemcpbench, bfcl-multi-turn and seal-tools at 600. The later domains have none.

    >>> sizes("mcp-atlas")["calculator_calculate"]
    ToolSize(characters=111, tokens=26)
    """
    names = tools(domain)
    with packed("tool-sizes") as pack:
        known = [name.removeprefix(f"{domain}.") for name in pack if name.startswith(f"{domain}.")]
        if not known:
            raise UsageError(f"Only the domains of DOMAINS have sizes. Got {domain!r} instead.")
        if part not in known:
            raise UsageError(f"The 'part' of {domain} must be one of {', '.join(known)}. Got {part!r} instead.")
        counts = pack[f"{domain}.{part}"].tolist()
    return {name: ToolSize(*count) for name, count in zip(names, counts, strict=True)}


def labels(domain: str) -> list[dict[str, Any]]:
    """One record a task with `task_id`, `required` and `group`; required tools that no list holds are named here too.

    Add the `scores` of a scorer of your own, and `LoggedTasks.from_records` takes the records.

    >>> labels("retail")[0]["required"]
    ['find_user_id_by_name_zip', 'get_order_details', 'get_product_details']
    """
    find(domain)
    with packed(domain) as pack:
        names = _lines_of(pack["tools"])
        ids = _lines_of(pack["task_ids"])
        groups = _lines_of(pack["groups"])
        ends = np.cumsum(pack["n_required"], dtype=np.int64)[:-1]
        required = np.split(pack["required"], ends)
    return [
        {"task_id": task_id, "required": [names[i] for i in places], "group": group}
        for task_id, places, group in zip(ids, required, groups, strict=True)
    ]


def task_vectors(domain: str) -> Floats:
    """(n, 64): every request of a domain as a vector of length 1, in the order of `load(domain).task_ids`.

    They are `projected` embeddings of all-MiniLM-L6-v2 in 8 bits a number, so that tasks can be compared without their
    texts: the cosine of two tasks is their inner product. Equal texts have equal vectors.

    >>> task_vectors("retail").shape
    (67, 64)
    """
    file = "task-vectors-mixed" if find(domain) in MIXED_DOMAINS else "task-vectors"
    with packed(file) as pack:
        return at_length_one(pack[domain].astype(np.float64))


def projection() -> Floats:
    """(64, 384): the 64 main directions of the nine domains' requests under all-MiniLM-L6-v2, one a row.

    The right singular vectors of all distinct requests of `DOMAINS`, stacked as unit vectors and not centred. Requests
    of `LATER_DOMAINS` had no part in it.
    """
    with packed("task-vectors") as pack:
        matrix: Floats = pack["projection"].astype(np.float64)
        return matrix


def projected(embeddings: Floats) -> Floats:
    """(n, 64): embeddings of your own requests, (n, 384) of all-MiniLM-L6-v2, to compare with `task_vectors`.

    `embeddings @ projection().T`, scaled to length 1.

    >>> projected(np.eye(384)[:2]).shape
    (2, 64)
    """
    matrix = projection()
    embeddings = np.asarray(embeddings, dtype=np.float64)
    if embeddings.ndim != 2 or embeddings.shape[1] != matrix.shape[1]:
        raise UsageError(f"The 'embeddings' must be (n, {matrix.shape[1]}). Got {embeddings.shape} instead.")
    # einsum, not a BLAS product: a request's vector must not depend on how many stand beside it.
    return at_length_one(np.einsum("nd,kd->nk", embeddings, matrix))


def self_selected(logged: LoggedTasks, setting: str = "uniform") -> Bools:
    """(n, m): the sets that Claude chose itself on Retail tasks, knowing the payoff rule, lambda 0.12 and the costs.

    `setting` is "uniform" (every tool costs 1) or "dispersed" (dispersion 1). `logged` is `load("retail", ...)` or
    some of its tasks. One pass over 67 tasks; the model knew the public benchmark, so read it as an upper reference.
    """
    if setting not in SELF_SELECTED:
        raise UsageError(f"The 'setting' must be one of {', '.join(SELF_SELECTED)}. Got {setting!r} instead.")
    with packed("retail") as pack:
        column = {name: i for i, name in enumerate(_lines_of(pack["tools"]))}
        row = {name: i for i, name in enumerate(_lines_of(pack["task_ids"]))}
        chosen = pack[f"chosen.{setting}"]
    unknown = [name for name in logged.task_ids.tolist() if name not in row]
    unknown += [name for name in logged.rankings.catalogue if name not in column]
    if unknown:
        raise UsageError(f"Only tasks of load('retail') have self-selected sets. Unknown: {', '.join(unknown[:5])}.")
    rows = np.array([row[name] for name in logged.task_ids.tolist()], dtype=np.int64)
    columns = np.array([column[name] for name in logged.rankings.catalogue], dtype=np.int64)
    marks: Bools = chosen[rows[:, None], columns[logged.rankings.tool_ids]] & logged.rankings.listed
    return marks


def _costs(domain: str, names: tuple[str, ...], dispersion: float, cost_vector: int) -> dict[str, float]:
    if domain != "retail":
        return dispersed(md5_base_costs(names, cost_vector), dispersion)
    if cost_vector != 0:
        raise UsageError(
            f"The 'cost_vector' of retail must be 0, as its base costs are a table. Got {cost_vector!r} instead. Price "
            "the tasks yourself with load('retail').with_costs(...)."
        )
    return dispersed(RETAIL_BASE_COSTS, dispersion)


@contextmanager
def packed(name: str) -> Iterator[Mapping[str, Any]]:
    """The arrays of a packed file, by name."""
    with (files("camdf_lab.domains") / "packed" / f"{name}.npz").open("rb") as file, np.load(file) as pack:
        yield pack


def _lines_of(text: Any) -> tuple[str, ...]:
    return tuple(text.tobytes().decode().split("\n"))
