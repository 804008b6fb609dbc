"""One cell of the matrix: a framework in a situation under a tracer, and what its trace says beside the truth."""

from __future__ import annotations

import importlib
import json
import os
from contextlib import nullcontext, suppress
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exception
from typing import Any

from camdf_traces.span_files import span_tables
from camdf_traces.tasks import Mined, mine
from scripted import ScriptedModel
from traced.matrix import EXACT, FRAMEWORKS, NONE
from traced.situations import Play


def measured(framework: str, tracer: str, situation: str, keep: Path | None = None) -> str:
    """The verdict on the traces of a run of the real libraries."""
    module: Any = importlib.import_module(f"traced.{FRAMEWORKS[framework][0]}")
    lacks = module.WITHOUT.get(situation) or module.WITHOUT.get(tracer)
    if lacks:
        return f"{NONE}{lacks}"
    play = Play(situation)
    script = getattr(module, "SCRIPTS", {}).get(situation, play.truth.script)
    with TemporaryDirectory() as folder, ScriptedModel(script) as model:
        file = Path(folder) / "traces.jsonl"
        play.url = model.url
        with module.traced(tracer, file) as setting, suppress(BaseException) if play.truth.failed else nullcontext():
            module.run(play, setting)
        play.drained()
        assert not model.script, f"{framework}, {situation}: the agent did not ask for {model.script}"
        if keep is not None:
            keep.write_text(file.read_text())
        return verdict(play, file)


def measured_apart(framework: str, tracer: str, situation: str, keep: Path | None = None, seconds: float = 240) -> str:
    """The verdict, measured in a process of its own: tracers change libraries and leave spans open behind them."""
    forks = get_context("fork")
    ours, theirs = forks.Pipe(duplex=False)

    def work() -> None:
        try:
            theirs.send((measured(framework, tracer, situation, keep), ""))
        except Exception as error:
            theirs.send(("", "".join(format_exception(error))))
        finally:
            theirs.close()
            os._exit(0)

    child = forks.Process(target=work)
    child.start()
    theirs.close()
    try:
        found, failure = ours.recv() if ours.poll(seconds) else ("", f"no answer within {seconds} seconds")
    except EOFError:
        found, failure = "", "the process ended without an answer"
    child.kill()
    child.join()
    if failure:
        raise RuntimeError(f"{framework}, {tracer}, {situation}: {failure}")
    return str(found)


def verdict(play: Play, file: Path) -> str:
    """ "exact", or the first things that are wrong or missing, the worst first."""
    if not file.read_text().strip():
        return "no trace"
    with span_tables(file) as tables:
        mined = mine(tables)
    found = [*_runs(play, mined)] or [*_tools(play, mined), *_decisions(play, mined, file.read_text())]
    return "; ".join(dict.fromkeys(found)) or EXACT


def _runs(play: Play, mined: Mined) -> list[str]:
    truth, found = play.truth, []
    if mined.orphans:
        found.append("spans whose parent is missing")
    if (failed := mined.failed + mined.stopped) != truth.failed:
        found.append(f"{failed} failed runs, not {truth.failed}")
    if len(mined.tasks) != len(truth.runs):
        found.append(f"{len(mined.tasks)} runs, not {len(truth.runs)}")
    return found


def _tools(play: Play, mined: Mined) -> list[str]:
    found, tasks = [], mined.tasks.sort("time").to_dicts()
    for run, task in zip(play.truth.runs, tasks, strict=True):
        if sorted(task["called"]) != sorted(run.required):
            found.append(f"requires {', '.join(task['called']) or 'nothing'}, not {', '.join(run.required)}")
        if sorted(task["wanted"]) != sorted(run.wanted):
            found.append(f"wanted {', '.join(task['wanted']) or 'nothing'}, not {', '.join(run.wanted) or 'anything'}")
        kept = play.known(play.offered(run.gate))
        if not task["offered"]:
            found.append("offered tools missing")
        elif sorted(play.known(task["offered"])) != sorted(kept):
            found.append("other tools offered")
    if play.situation == "resumed" and len({task["group"] for task in tasks}) > 1:
        found.append("the two runs are two conversations")
    return found


def _decisions(play: Play, mined: Mined, written: str) -> list[str]:
    found = []
    for run, task in zip(play.truth.runs, mined.tasks.sort("time").to_dicts(), strict=True):
        decision = play.decided(run.gate)
        if decision is None:
            found.append("the gate decided nothing")
            continue
        if not task["ranked"]:
            found.append("decision missing")
            continue
        ranking = [each.name for each in decision.ranking], [each.score for each in decision.ranking]
        if (task["ranked"], task["scores"]) != ranking:
            found.append("another ranking")
        if task["explored"] is not decision.explored:
            found.append("exploration missing")
        if decision.policy_digest not in written:
            found.append("policy digest missing")
        if decision.cost_pressure is not None and f"{decision.cost_pressure}" not in written:
            found.append("cost pressure missing")
    return found


def shown(file: Path) -> str:
    """The spans of a file, a line each, for whoever looks into a cell."""
    from camdf_traces.readers import read_spans

    lines = []
    for span in sorted(read_spans(file), key=lambda each: each.start or 0):
        told = {name: value for name, value in asdict(span).items() if value not in ("", (), None)}
        for name in ("trace_id", "start", "end", "scores", "text"):
            told.pop(name, None)
        lines.append(json.dumps(told))
    return "\n".join(lines)
