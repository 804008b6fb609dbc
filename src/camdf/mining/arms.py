"""Conversations from traces, by what they saw: a gated list, or every tool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from camdf.core.rankings import Bools, Floats
from camdf.errors import DataError, require
from camdf.mining.runs import deduplicated, gathered, with_owners
from camdf.mining.span_files import SPANS_AT_A_TIME, Source, in_parts
from camdf.mining.spans import SPAN_COLUMNS
from camdf.prices import Prices

A_MILLION = 1e6


@dataclass(frozen=True)
class Arms:
    """(n,) each: whether a conversation was gated, and what it took; NaN where nobody recorded it."""

    gated: Bools
    measures: dict[str, Floats]
    ungated: int
    """Conversations without any decision of a gate, which were left out."""

    mixed: int
    """Conversations of which some runs were gated and others saw every tool, which were left out."""

    unfinished: int
    """Those of which spans are missing, which were left out."""

    def __str__(self) -> str:
        told = {
            "no gate decided": self.ungated,
            "runs of both kinds": self.mixed,
            "spans are missing, or no outcome": self.unfinished,
        }
        left_out = ", ".join(f"{count:,} ({why})" for why, count in told.items() if count)
        counts = f"{int(self.gated.sum()):,} gated conversations, {int((~self.gated).sum()):,} that saw every tool"
        return f"{counts}. Left out: {left_out}." if left_out else f"{counts}."


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
    succeeded if none of its runs failed; with `require_outcome` only those count for which an outcome was recorded.
    Dollars are those of model calls: `prices` has the input, `output_price` is a million tokens of output.
    """
    polars = require("polars", "mining")
    col = polars.col
    parts = []
    for spans in in_parts(source, [name for name in SPAN_COLUMNS if name != "text"], at_a_time):
        owned = with_owners(deduplicated(spans.with_columns(text=polars.lit(""))))
        key = polars.concat_str("trace_id", polars.lit("/"), "owner")
        call, model = col("kind") == "tool", col("kind") == "model"
        tokens = [col(f"{name}_tokens").filter(model) for name in ("input", "cached", "output")]
        steps = owned.filter(col("owner").is_not_null()).group_by(task_id=key)
        used = steps.agg(
            tool_calls=call.sum().cast(polars.Float64),
            input_tokens=polars.when(tokens[0].count() > 0).then(tokens[0].sum().cast(polars.Float64)),
            cached=tokens[1].sum().cast(polars.Float64),
            output=tokens[2].sum().cast(polars.Float64),
            seconds=(col("end").max() - col("start").min()).cast(polars.Float64) / 1e9,
        )
        parts.append(gathered(owned).join(used, on="task_id", how="left"))
    runs = polars.concat(parts) if parts else None
    if runs is None or runs.is_empty():
        raise DataError(
            "There is no run of an agent in these traces. Name traces in which an agent calls models or tools."
        )
    decided = col("ranked").list.len() > 0
    sums = [col(name).sum() for name in ("tool_calls", "cached", "output", "seconds")]
    named = polars.when(col("conversation") != "").then("conversation").otherwise("task_id")
    found = runs.group_by(conversation=named).agg(
        *sums,
        input_tokens=polars.when(col("input_tokens").is_not_null().all()).then(col("input_tokens").sum()),
        decided=decided.any(),
        explored=(col("explored").fill_null(False) | ~decided).all(),
        gated=(~col("explored").fill_null(False) | ~decided).all(),
        failed=(col("failed") | ~col("success").fill_null(True)).any(),
        known=col("success").is_not_null().any() | col("failed").any(),
        incomplete=col("incomplete").any(),
    )
    there = found.filter("decided")
    whole = there.filter(~col("incomplete") & (col("known") | polars.lit(not require_outcome)))
    kept = whole.filter(col("explored") != col("gated")).sort("conversation")
    new, again = prices.of_request(new=1), prices.of_request(new=0, again=1)
    read = (col("input_tokens") - col("cached")) * new + col("cached") * again
    dollars = read + col("output") * output_price / A_MILLION
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
        ungated=len(found) - len(there),
        mixed=len(whole) - len(kept),
        unfinished=len(there) - len(whole),
    )
