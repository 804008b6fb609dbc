"""Conversations from traces, by what they saw: a gated list, or every tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from camdf.core.rankings import Bools, Floats
from camdf.datasets.counts import in_one_line
from camdf.errors import DataError, require
from camdf.prices import Prices
from camdf_traces.runs import SPANS_LEFT_OUT, deduplicated, gathered, span_counts, with_owners
from camdf_traces.span_files import SPANS_AT_A_TIME, Source, in_parts
from camdf_traces.spans import SPAN_COLUMNS
from camdf_traces.usage import with_whole_input

if TYPE_CHECKING:
    import polars as pl

A_MILLION = 1e6
TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
GATED = "gated"
EXPLORED = "explored"
UNKNOWN = "unknown"
NO_GATE = "none"
"""The arms of a run."""


@dataclass(frozen=True)
class Arms:
    """(n,) each: whether a conversation was gated, and what it took; NaN where nobody recorded it."""

    gated: Bools
    measures: dict[str, Floats]
    lost: Bools
    """Those that began and never ended, or have no outcome where one is required."""

    unplaced: int
    """Conversations that never ended, without a decision of a gate and without an offer that tells the arm."""

    ungated: int
    """Conversations without any decision of a gate, which were left out."""

    mixed: int
    """Conversations of which some runs were gated and others saw every tool, which were left out."""

    spans: Mapping[str, int]
    """How many spans were read, and how many of them are duplicates, without an id, and of no run."""

    @property
    def sums(self) -> dict[str, dict[str, int]]:
        """What adds up: spans read are those used and those left out, conversations those of an arm and others."""
        left_out = {name: self.spans[key] for key, name in SPANS_LEFT_OUT.items()}
        read = self.spans["spans"]
        gated = int(self.gated.sum())
        return {
            "spans": {"read": read, "used": read - sum(left_out.values()), **left_out},
            "conversations": {
                "begun": len(self.gated) + self.ungated + self.mixed + self.unplaced,
                "gated": gated,
                "that saw every tool": len(self.gated) - gated,
                "on which no gate decided": self.ungated,
                "with runs of both kinds": self.mixed,
                "that never ended, arm unknown": self.unplaced,
            },
        }

    def __str__(self) -> str:
        return "\n".join(in_one_line(what, counts) for what, counts in self.sums.items())


def arms(
    source: Source,
    prices: Prices,
    output_price: float,
    *,
    require_outcome: bool = False,
    at_a_time: int = SPANS_AT_A_TIME,
) -> Arms:
    """The conversations in some traces; a run without a conversation is one.

    A conversation saw every tool if all of its runs that a gate decided on explored, or were only watched. It
    succeeded if none of its runs failed and all ended; with `require_outcome` those without a recorded outcome count
    as lost. Where a run never ended and the span with the gate's decision never came, its offer tells the arm
    (`_arms`). Dollars are those of model calls: `prices` has the input, `output_price` is a million tokens of output.
    """
    polars = require("polars", "mining")
    col = polars.col
    parts: list[pl.DataFrame] = []
    seen = Counter[str]()
    for spans in in_parts(source, [name for name in SPAN_COLUMNS if name != "text"], at_a_time):
        owned = with_whole_input(with_owners(deduplicated(spans.with_columns(text=polars.lit("")))))
        lost_calls = owned.filter(col("owner").is_null() & col("incomplete") & col("kind").is_in(["model", "tool"]))
        seen.update(span_counts(spans, owned))
        seen["unowned"] -= len(lost_calls)
        parts += [gathered(owned).join(_used(owned), on="task_id", how="left"), _runs_without_an_agent(lost_calls)]
    if not any(map(len, parts)):
        raise DataError(
            "There is no run of an agent in these traces. Name traces in which an agent calls models or tools."
        )
    runs = polars.concat(parts, how="diagonal_relaxed")
    runs = runs.with_columns(lost=col("incomplete") | col("endless").fill_null(False))
    runs = runs.with_columns(arm=_arms(runs))
    sums = [col(name).sum() for name in ("tool_calls", "cached", "output", "seconds")]
    named = polars.when(col("conversation") != "").then("conversation").otherwise("task_id")
    conversations = runs.group_by(conversation=named).agg(
        *sums,
        *((col("arm") == arm).any().alias(arm) for arm in (GATED, EXPLORED, UNKNOWN)),
        input_tokens=polars.when(col("input_tokens").is_not_null().all()).then(col("input_tokens").sum()),
        # a run may stop for a person to approve of a call, and the next one goes on
        failed=(col("failed") | ~col("success").fill_null(True)).any()
        | col("stopped").sort_by("time", nulls_last=True).last().fill_null(False),
        known=col("success").is_not_null().any() | col("failed").any(),
        lost=col("lost").any(),
    )
    there = conversations.filter(col(GATED) | col(EXPLORED))
    kept = there.filter(col(GATED) != col(EXPLORED)).sort("conversation")
    lost = col("lost") | ~(col("known") | polars.lit(not require_outcome))
    unplaced = len(conversations.filter(col(UNKNOWN) & ~col(GATED) & ~col(EXPLORED)))
    new = prices.of_request(new=1)
    again = prices.of_request(new=0, again=1)
    dollars_of_input = (col("input_tokens") - col("cached")) * new + col("cached") * again
    dollars = dollars_of_input + col("output") * output_price / A_MILLION
    measures = kept.select(
        (~col("failed")).cast(polars.Float64).alias("success"),
        "tool_calls",
        "input_tokens",
        dollars.alias("dollars"),
        "seconds",
    )
    return Arms(
        kept["gated"].to_numpy().astype(bool),
        {name: measures[name].fill_null(np.nan).to_numpy() for name in measures.columns},
        lost=kept.select(lost).to_series().to_numpy().astype(bool),
        unplaced=unplaced,
        ungated=len(conversations) - len(there) - unplaced,
        mixed=len(there) - len(kept),
        spans=seen,
    )


def _used(owned: pl.DataFrame) -> pl.DataFrame:
    """What each run took: calls of tools, tokens and seconds; and whether its agent began and never ended."""
    polars = require("polars", "mining")
    col = polars.col
    of_models = {name: col(name).filter(col("kind") == "model") for name in TOKENS}
    input_tokens = of_models["input_tokens"]
    is_agent = col("span_id") == col("owner")
    return (
        owned.filter(col("owner").is_not_null())
        .group_by(task_id=polars.concat_str("trace_id", polars.lit("/"), "owner"))
        .agg(
            tool_calls=(col("kind") == "tool").sum().cast(polars.Float64),
            input_tokens=polars.when(input_tokens.count() > 0).then(input_tokens.sum().cast(polars.Float64)),
            cached=of_models["cached_tokens"].sum().cast(polars.Float64),
            output=of_models["output_tokens"].sum().cast(polars.Float64),
            seconds=(col("end").max() - col("start").min()).cast(polars.Float64) / 1e9,
            endless=(is_agent & col("start").is_not_null() & col("end").is_null()).any(),
        )
    )


def _arms(runs: pl.DataFrame) -> pl.Series:
    """The arm of each run: what a gate decided; of a lost run without a decision, what its offer tells.

    A list that only runs that saw every tool were offered is one of theirs. A part of such a list was cut, and so was a
    list that only gated runs were offered. Without a list, or with one of both arms, the arm is unknown; any other list
    is of an agent without a gate.
    """
    polars = require("polars", "mining")
    decided = runs["ranked"].list.len() > 0
    explored = runs["explored"].fill_null(False)
    every = set(map(frozenset, runs["offered"].filter(decided & explored)))
    cut = set(map(frozenset, runs["offered"].filter(decided & ~explored)))

    def arm_of(by_gate: bool, saw_all: bool, lost: bool, names: list[str]) -> str:
        if by_gate:
            return EXPLORED if saw_all else GATED
        if not lost:
            return NO_GATE
        offer = frozenset(names)
        if not offer or (offer in every and offer in cut):
            return UNKNOWN
        if offer in every:
            return EXPLORED
        if offer in cut or any(offer < whole for whole in every):
            return GATED
        return NO_GATE

    arms_of_runs = list(map(arm_of, decided, explored, runs["lost"], runs["offered"]))
    arm: pl.Series = polars.Series("arm", arms_of_runs, polars.String)
    return arm


def _runs_without_an_agent(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of runs whose agent span never came, a row a trace: they began, and nobody knows how they ended."""
    polars = require("polars", "mining")
    col = polars.col
    ranking = col("ranked").filter(col("ranked").list.len() > 0).first().fill_null([])
    return calls.group_by(task_id="trace_id").agg(
        col("incomplete").any(),
        col("explored").max(),
        conversation=col("thread").first(),
        ranked=ranking,
        offered=col("offered").explode().drop_nulls().unique(),
        failed=polars.lit(False),
        success=polars.lit(None, polars.Boolean),
    )
