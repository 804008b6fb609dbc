"""The usage that prices need from traces: calls, seconds and failures of every tool, tokens and turns of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from camdf.errors import require
from camdf.prices import ToolStatistics
from camdf_traces.runs import SCALARS, deduplicated, with_owners
from camdf_traces.span_files import SPANS_AT_A_TIME, Source, in_parts

if TYPE_CHECKING:
    import polars as pl

MICROSECONDS_A_DAY = 86_400_000_000


@dataclass(frozen=True)
class Usage:
    """How a run uses its model, on average: what `Prices` needs beside the provider's price list."""

    runs: int
    """Runs with at least one model call, failed ones included: they cost as much."""

    turns: float
    """Model calls a run: the `turns` of `Prices`."""

    input_tokens: float
    """Input tokens a model call, over the calls that record them."""

    cached_share: float
    """The share of those tokens that the provider read from its cache."""


def tool_statistics(source: Source, at_a_time: int = SPANS_AT_A_TIME) -> dict[str, ToolStatistics]:
    """Calls, seconds and failures of every tool by name: the `statistics` of `Prices`.

    Every attempt counts as a call, a retry too. A call without a start or an end takes as long as the tool's others do
    on average; one that seems to end before it starts takes no time, and none takes more than a day.
    """
    return statistics_of([tool_counts(source, at_a_time)])


def tool_counts(source: Source, at_a_time: int = SPANS_AT_A_TIME) -> pl.DataFrame:
    """Calls, failures, timed calls and their microseconds by tool: counts that `statistics_of` adds up."""
    polars = require("polars", "mining")
    microseconds = ((polars.col("end") - polars.col("start")) // 1000).clip(0, MICROSECONDS_A_DAY)
    parts = [
        deduplicated(spans)
        .filter((polars.col("kind") == "tool") & (polars.col("name") != ""))
        .group_by("name")
        .agg(
            calls=polars.len().cast(polars.Int64),
            failures=(polars.col("error") != "").sum().cast(polars.Int64),
            timed=microseconds.count().cast(polars.Int64),
            microseconds=microseconds.sum(),
        )
        for spans in in_parts(source, SCALARS, at_a_time)
    ]
    counts: pl.DataFrame = polars.concat(parts).group_by("name").sum()
    return counts


def statistics_of(counts: Sequence[pl.DataFrame]) -> dict[str, ToolStatistics]:
    """The statistics of tools from the counts of several sources, no trace in two of them."""
    whole = require("polars", "mining").concat(counts).group_by("name").sum().sort("name")
    return {
        name: ToolStatistics(calls, total / max(timed, 1) * calls / 1e6, failures)
        for name, calls, failures, timed, total in whole.iter_rows()
    }


def usage(source: Source, at_a_time: int = SPANS_AT_A_TIME) -> Usage:
    """Turns and tokens of a run, over all runs with a model call."""
    return usage_of(usage_counts(source, at_a_time))


def usage_counts(source: Source, at_a_time: int = SPANS_AT_A_TIME) -> Counter[str]:
    """Runs, model calls and tokens: counts that add up over sources, no trace in two of them, for `usage_of`."""
    polars = require("polars", "mining")
    model_call = (polars.col("kind") == "model") & polars.col("owner").is_not_null()
    counts = Counter[str]()
    for spans in in_parts(source, SCALARS, at_a_time):
        calls = with_owners(deduplicated(spans)).filter(model_call)
        with_tokens = with_whole_input(calls).filter(polars.col("input_tokens") > 0)
        counts.update(
            runs=len(calls.unique(("trace_id", "owner"))),
            calls=len(calls),
            counted=len(with_tokens),
            tokens=int(with_tokens["input_tokens"].sum()),
            cached=int(with_tokens["cached_tokens"].sum()),
        )
    return counts


def with_whole_input(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans, with input tokens that hold the cached ones, whichever way the tracer counts.

    OpenAI counts cached tokens among those of the input, and so does OpenTelemetry; Anthropic counts them apart. More
    cached tokens than input in one call tell that all calls of that model in the trace are counted apart.
    """
    polars = require("polars", "mining")
    read = polars.col("input_tokens").clip(0)
    cached = polars.when(read.is_not_null()).then(polars.col("cached_tokens").fill_null(0).clip(0))
    apart = (cached > read).fill_null(False).any().over("trace_id", "kind", "name")
    return spans.with_columns(input_tokens=read + polars.when(apart).then(cached).otherwise(0), cached_tokens=cached)


def usage_of(counts: Mapping[str, int]) -> Usage:
    """The averages of the counts."""
    return Usage(
        runs=counts["runs"],
        turns=counts["calls"] / max(counts["runs"], 1),
        input_tokens=counts["tokens"] / max(counts["counted"], 1),
        cached_share=counts["cached"] / max(counts["tokens"], 1),
    )
