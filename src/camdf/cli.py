"""The command line: score, mine, audit, fit and evaluate on your own tasks, and the lab that replays the paper."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from camdf._version import __version__
from camdf.core.payoff import VALUES, Payoff
from camdf.datasets.own import is_mined, read
from camdf.datasets.records import DataError
from camdf.policies.artifact import ArtifactError, load, save
from camdf.policies.label_noise import estimate_label_noise
from camdf.policies.linear import MissingExtraError
from camdf.policies.training import Training
from camdf.scorers import BM25, Embeddings, Necessity, Scorer, ScorerError
from camdf.scorers.base import TEXTS
from camdf.scorers.embeddings import MINILM
from camdf.scorers.necessity import VARIANTS

J = TypeVar("J", bound="Job")

if TYPE_CHECKING:
    from camdf.core.rankings import LoggedTasks
    from camdf.lab.replay import Outcomes
    from camdf.lab.running import Job
    from camdf.lab.study import Study
    from camdf.mining.spark_fit import Blocks
    from camdf.mining.statistics import Usage
    from camdf.policies.base import Policy
    from camdf.prices import ToolStatistics


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 where it did what was asked, 1 where results disagree, 2 where it could not run."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except (ArtifactError, DataError, MissingExtraError, ScorerError, ValueError, OSError) as error:
        print(f"camdf: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("camdf: interrupted; finished work is kept, so run the same command again to go on", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="camdf", description="Which of the ranked tools are worth giving to the agent?"
    )
    parser.add_argument("--version", action="version", version=f"camdf {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fit = commands.add_parser("fit", help="learn a policy from logged tasks and say whether it pays")
    fit.add_argument("data", type=Path, help="logged tasks: .jsonl or .parquet")
    fit.add_argument("-o", "--output", type=Path, required=True, help="where to write the policy (.json)")
    fit.add_argument("--policy", default="by-set", help="which policy to fit (default: by-set)")
    fit.add_argument("--explored-only", action="store_true", help="mined tasks: learn from runs that explored alone")
    _add_payoff(fit, required=True)
    _add_splits(fit)
    _add_engine(fit)
    fit.set_defaults(run=_fit)

    evaluate = commands.add_parser("evaluate", help="measure a saved policy on logged tasks, beside tuned simple rules")
    evaluate.add_argument("policy", type=Path, help="a policy that camdf saved (.json)")
    evaluate.add_argument("data", type=Path, help="logged tasks: .jsonl or .parquet")
    _add_payoff(evaluate, required=False)
    _add_splits(evaluate)
    evaluate.set_defaults(run=_evaluate)

    curve = commands.add_parser("curve", help="say how many labelled tasks are enough: payoff by number of labels")
    curve.add_argument("data", type=Path, help="logged tasks: .jsonl or .parquet")
    curve.add_argument("-o", "--output", type=Path, help="where to draw it (.png, .svg or .pdf)")
    _add_payoff(curve, required=True)
    _add_splits(curve, default=20)
    curve.set_defaults(run=_curve)

    calibrate = commands.add_parser("calibrate", help="find the cost pressure for a promised sufficiency or a budget")
    calibrate.add_argument("policy", type=Path, help="a by-set or by-depth policy that camdf saved (.json)")
    calibrate.add_argument("data", type=Path, help="logged tasks that it was not fitted on: .jsonl or .parquet")
    target = calibrate.add_mutually_exclusive_group(required=True)
    target.add_argument("--min-sufficiency", type=float, help="share of tasks that get every required tool, as 0.95")
    target.add_argument("--budget", type=float, help="mean cost a task, in the unit of the costs")
    calibrate.add_argument("--per-task", action="store_true", help="with --budget: bound every task, not the mean")
    calibrate.add_argument("--value", choices=sorted(VALUES), default="exact", help="what an acquired set is worth")
    calibrate.set_defaults(run=_calibrate)

    score = commands.add_parser("score", help="score a folder of tasks; run it again to go on where it stopped")
    score.add_argument("folder", type=Path, help="holds tasks.jsonl and tools.json")
    score.add_argument("-o", "--output", type=Path, required=True, help="where the scores go (.jsonl)")
    score.add_argument("--scorer", choices=("bm25", "minilm", "llm"), required=True, help="who scores")
    score.add_argument("--top", type=int, help="keep the best so many tools a task (default: all)")
    score.add_argument("--text", choices=sorted(TEXTS), default="words", help="how a tool is written (default: words)")
    score.add_argument("--model", help="minilm: an embedding model's name or folder; llm: the endpoint's model")
    score.add_argument("--url", help="llm: an OpenAI-compatible endpoint, up to /v1")
    score.add_argument("--variant", choices=sorted(VARIANTS), default="default", help="llm: which prompt")
    score.add_argument("--key-variable", help="llm: the environment variable that holds the API key")
    score.add_argument("--cache", type=Path, help="llm: a folder that keeps the answers")
    score.add_argument("--deadline", type=float, default=60.0, help="llm: seconds a task at most (default: 60)")
    score.set_defaults(run=_score)

    mine = commands.add_parser("mine", help="logged tasks from the traces of an agent")
    mine.add_argument(
        "traces", type=Path, help="a folder of traces, or one file, of any tracer that docs/traces.md names"
    )
    mine.add_argument("-o", "--output", type=Path, required=True, help="where to write the tasks (.parquet)")
    mine.add_argument("--statistics", type=Path, help="where to write calls, seconds and failures by tool (.json)")
    mine.add_argument("--require-outcome", action="store_true", help="leave out runs whose outcome nobody recorded")
    mine.add_argument("--with-text", action="store_true", help="keep what users asked, and group near-copies by it")
    _add_engine(mine)
    mine.set_defaults(run=_mine)

    audit = commands.add_parser("audit", help="can these tasks be learned from? Noise, censoring, depth, drift")
    audit.add_argument("data", type=Path, help="what camdf mine wrote, or logged tasks: .parquet or .jsonl")
    period = audit.add_mutually_exclusive_group()
    period.add_argument("--since", type=datetime.fromisoformat, help="where the later period begins, as 2026-01-31")
    period.add_argument("--split", type=float, default=0.5, help="or its place among the tasks in time (default: 0.5)")
    audit.add_argument("--json", action="store_true", help="numbers and sentences for machines")
    audit.set_defaults(run=_audit)

    lab = commands.add_parser("lab", help="every table and figure of the paper, on the data that ships")
    actions = lab.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("list", help="name the studies").set_defaults(run=_list)
    run = actions.add_parser("run", help="replay a study, or all of them")
    run.add_argument("study", help="a study's name, or all")
    run.add_argument("--workers", type=int, default=0, help="processes (default: one a core)")
    run.add_argument("--into", type=Path, default=Path("results"), help="with all: where results go (default: results)")
    run.add_argument("--fresh", action="store_true", help="replay cells that were finished before, too")
    run.set_defaults(run=_run)
    check = actions.add_parser("check", help="replay a sample of cells and compare with the stored results")
    check.add_argument("--results", type=Path, default=Path("results"), help="stored results (default: results)")
    check.add_argument("--cells", type=int, default=12, help="how many cells at least (default: 12)")
    check.add_argument("--seed", type=int, default=0, help="which sample (default: 0)")
    check.set_defaults(run=_check)
    past = actions.add_parser("past", help="past the paper: measure one study, or all, and write their page")
    past.add_argument("study", help="frontier, calibration, control, ... or all; page writes the page alone")
    past.add_argument("--workers", type=int, default=0, help="processes (default: one a core)")
    past.add_argument("--into", type=Path, default=Path("results"), help="where its table goes (default: results)")
    past.add_argument("--page", type=Path, default=Path("docs/past-the-paper.md"), help="the page to write")
    past.set_defaults(run=_past)
    report = actions.add_parser("report", help="all stored results as one page, with pictures")
    report.add_argument("--results", type=Path, default=Path("results"), help="stored results (default: results)")
    report.add_argument("-o", "--output", type=Path, default=Path("report.html"), help=".html or .md")
    report.set_defaults(run=_report)
    return parser


def _add_payoff(parser: argparse.ArgumentParser, required: bool) -> None:
    pressure = parser.add_mutually_exclusive_group(required=required)
    pressure.add_argument("--cost-pressure", type=float, help="price of one unit of tool cost in solved tasks, as 0.12")
    pressure.add_argument("--task-worth", type=float, help="worth of a solved task in the unit of the costs, as 0.40")
    parser.add_argument("--value", choices=sorted(VALUES), default="exact", help="what an acquired set is worth")


def _add_splits(parser: argparse.ArgumentParser, default: int = 30) -> None:
    parser.add_argument("--splits", type=int, default=default, help=f"how many train/test splits (default: {default})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits (default: 0)")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="where it runs (default: local)")


def _payoff(options: argparse.Namespace) -> Payoff:
    if options.task_worth is not None:
        return Payoff.from_money(options.task_worth, options.value)
    return Payoff(options.cost_pressure, options.value)


def _fit(options: argparse.Namespace) -> int:
    from camdf.lab.assess import assess
    from camdf.lab.contestants import CONTESTANTS
    from camdf.lab.progress import progress
    from camdf.lab.splits import draw_splits

    if options.policy not in CONTESTANTS:
        raise ValueError(f"The policy must be one of: {'; '.join(CONTESTANTS)}. Got {options.policy!r} instead.")
    payoff, blocks = _payoff(options), None
    if options.engine == "spark":
        logged, blocks = _sampled_on_spark(options)
    else:
        logged = read(options.data, explored_only=options.explored_only)
    make = CONTESTANTS[options.policy]
    with progress("splits") as report:
        assessment = assess(
            make, logged, payoff, splits=options.splits, seed=options.seed, subject=options.policy, report=report
        )
    _describe(logged, payoff)
    print(assessment.table())
    print(f"\n{options.policy} {assessment.verdict}")
    # The policy that ships learns from every task but those that choose its threshold.
    split = next(iter(draw_splits(logged, 1, options.seed, grouped=True, shares=(0.6, 0.2))))
    train, validation = logged.take([*split.train, *split.test]), logged.take(split.validation)
    policy, tasks, held = make().fit(train, payoff, validation), len(logged), len(validation)
    if blocks is not None and (on_all := _fitted_on_spark(policy, blocks, logged, payoff)) is not None:
        policy, tasks, held = on_all, len(blocks), 0
    means = {name: assessment.outcomes.mean(name) for name in assessment.outcomes.values}
    groups = len(set(logged.groups.tolist()))
    noise = estimate_label_noise(logged)
    save(policy, options.output, Training(logged.digest(), tasks, groups, held, noise.rate, means))
    print(f"at most about {noise.rate:.1%} of labels look wrong (95% interval up to {noise.at_most:.1%})")
    print(f"wrote {options.output}")
    return 0


def _sampled_on_spark(options: argparse.Namespace) -> tuple[LoggedTasks, Blocks]:
    """A sample of the tasks here, for what needs its tasks in one place, and all of them as blocks there."""
    from camdf.mining.spark import session
    from camdf.mining.spark_fit import blocks_of, pack, sample
    from camdf.mining.tasks import logged_tasks

    if options.data.suffix != ".parquet" or not is_mined(options.data):
        logged = read(options.data, explored_only=options.explored_only)
        return logged, blocks_of(session(), logged)
    tasks = session().read.parquet(str(options.data))
    if options.explored_only:
        tasks = tasks.filter("explored")
    blocks = pack(tasks)
    blocks.require_some()
    print(blocks)
    return logged_tasks(sample(tasks, seed=options.seed)), blocks


def _fitted_on_spark(policy: Policy, blocks: Blocks, logged: LoggedTasks, payoff: Payoff) -> Policy | None:
    """The policy fitted on every task where that can be done in passes; None where it stays as the sample made it."""
    from camdf.mining.spark_fit import fit
    from camdf.policies.newton import in_passes

    if not in_passes(policy):
        print(f"\nFitted on a sample of {len(logged):,} tasks: a {policy.kind} policy needs its tasks in one place.")
        return None
    fitted = fit(policy, blocks, payoff, start=policy.model_)
    print(f"\nFitted on all {len(blocks):,} tasks by Newton's method. The table is of fits on {len(logged):,} of them.")
    return fitted


def _evaluate(options: argparse.Namespace) -> int:
    from camdf.lab.assess import Fixed, assess
    from camdf.lab.progress import progress

    policy, logged = load(options.policy), read(options.data)
    chosen = options.cost_pressure is not None or options.task_worth is not None
    payoff = _payoff(options) if chosen else getattr(policy, "payoff_", None)
    if payoff is None:
        raise ValueError(f"A {policy.kind} policy serves any payoff. Name one: --cost-pressure or --task-worth")
    with progress("splits") as report:
        assessment = assess(
            lambda: Fixed(policy), logged, payoff, splits=options.splits, seed=options.seed, report=report
        )
    _describe(logged, payoff)
    print(assessment.table())
    training = policy.training_
    if training is not None and training.data_sha256 == logged.digest():
        print("\nThis policy was fitted on these very tasks, which flatters it. Evaluate it on tasks it has not seen.")
    print(f"\n{options.policy} {assessment.verdict}")
    return 0


def _curve(options: argparse.Namespace) -> int:
    from camdf.lab.curve import curve_picture, draw_steps, points_of, replay_steps, table, verdict
    from camdf.lab.progress import progress

    logged, payoff = read(options.data), _payoff(options)
    if options.output is not None and options.output.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"The output must end in .png, .svg or .pdf. Got {options.output.name!r} instead.")
    steps = draw_steps(logged, options.splits, options.seed)
    with progress("fits of three policies") as report:
        points = points_of(replay_steps(logged, payoff, steps, report), steps)
    _describe(logged, payoff)
    print(table(points))
    if options.output is not None:
        curve_picture(points).savefig(options.output, dpi=200)
        print(f"wrote {options.output}")
    print(f"\n{verdict(points)}")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    from camdf.policies.control import pressure_for_budget, pressure_for_sufficiency

    policy, logged = load(options.policy), read(options.data)
    training = policy.training_
    if options.budget is not None:
        payoff = pressure_for_budget(policy, logged, options.value, budget=options.budget, per_task=options.per_task)
    elif training is not None and training.data_sha256 == logged.digest():
        raise ValueError("This policy was fitted on these very tasks, which can promise nothing. Name other tasks.")
    else:
        payoff = pressure_for_sufficiency(policy, logged, options.value, min_sufficiency=options.min_sufficiency)
    _describe(logged, payoff)
    print(f"--cost-pressure {payoff.cost_pressure!r}")
    return 0


def _score(options: argparse.Namespace) -> int:
    from camdf.lab.progress import progress
    from camdf.lab.scoring import score_folder

    scorer: Scorer
    settings = {"scorer": options.scorer}
    if options.scorer == "llm":
        if not (options.url and options.model):
            raise ValueError("The scorer 'llm' needs an endpoint and a model. Name both: --url and --model")
        limits = {"timeout": options.deadline, "deadline": options.deadline}
        key, cache = options.key_variable, options.cache
        scorer = Necessity(options.url, options.model, options.variant, key_variable=key, cache=cache, **limits)
        settings |= {"model": options.model, "variant": options.variant}
    else:
        settings["text"] = options.text
        scorer = BM25(text=TEXTS[options.text])
        if options.scorer == "minilm":
            settings["model"] = options.model or MINILM
            scorer = Embeddings(settings["model"], text=TEXTS[options.text])
    with progress("tasks") as report:
        done = score_folder(options.folder, scorer, options.output, top=options.top, settings=settings, report=report)
    for task_id, why in done.refused.items():
        print(f"{task_id}: {why}", file=sys.stderr)
    again = f"; {len(done.refused)} could not be scored: run the same command again to try them" if done.refused else ""
    print(f"{done.now} tasks scored, {done.before} were there before: {options.output}{again}")
    return 1 if done.refused else 0


def _describe(logged: LoggedTasks, payoff: Payoff) -> None:
    incomplete = (logged.missing > 0).mean()
    print(
        f"{len(logged)} tasks, {len(set(logged.groups.tolist()))} groups, up to {logged.rankings.width} candidates, "
        f"{logged.n_required.mean():.2f} tools required on average; {incomplete:.0%} of lists lack a required tool.\n"
        f"Payoff: {payoff.value} value minus {payoff.cost_pressure:g} times cost.\n"
    )


def _mine(options: argparse.Namespace) -> int:
    from camdf.lab.progress import progress
    from camdf.mining.parts import span_tables
    from camdf.mining.statistics import tool_statistics, usage
    from camdf.mining.tasks import mine

    choices = {"require_outcome": options.require_outcome, "with_text": options.with_text}
    on_spark = options.engine == "spark"
    if on_spark and options.output.is_dir() and not is_mined(options.output):
        raise DataError(f"{options.output}: is a folder of something else. Name another.")
    with span_tables(options.traces) as tables:
        if on_spark:
            from camdf.mining import spark

            found = spark.mine(spark.read(tables), **choices, with_statistics=options.statistics is not None)
            found.tasks.write.mode("overwrite").parquet(str(options.output))
            print(f"{found}\nwrote {options.output}")
            if options.statistics is not None:
                _write_statistics(options.statistics, found.tool_statistics, found.usage)
            return 0
        with progress("parts") as report:
            mined = mine(tables, **choices, report=report)
        mined.tasks.write_parquet(options.output)
        print(f"{mined}\nwrote {options.output}")
        if options.statistics is not None:
            _write_statistics(options.statistics, tool_statistics(tables), usage(tables))
    return 0


def _audit(options: argparse.Namespace) -> int:
    from camdf.mining.audit import audit
    from camdf.mining.flat import read_tasks

    found = audit(read_tasks(options.data), since=options.since, split=options.split)
    print(json.dumps(found.to_json(), indent=1, ensure_ascii=False) if options.json else found)
    return 0


def _write_statistics(path: Path, tools: dict[str, ToolStatistics], used: Usage) -> None:
    written = {"usage": asdict(used), "tools": {name: asdict(found) for name, found in tools.items()}}
    path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def _list(options: argparse.Namespace) -> int:
    from camdf.lab.studies import NOT_REPLICATED, STUDIES

    width = max(map(len, STUDIES))
    for name, study in STUDIES.items():
        print(f"{name:{width}}  {study.title} ({study.where}; {len(study.cells)} cells)")
    print("\nNot replicated:")
    for what, why in NOT_REPLICATED.items():
        print(f"{what}: {why}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from camdf.lab.results import store
    from camdf.lab.studies import STUDIES
    from camdf.lab.study import fill
    from camdf.lab.tables import markdown

    studies = list(STUDIES.values()) if options.study == "all" else [_study(options.study)]
    cells = [cell for study in studies for cell in study.cells]
    outcomes = _replayed(cells, options.workers, options.fresh)
    if options.study == "all":
        results = store(options.into, studies, outcomes)
        print(f"{len(studies)} studies, {len(results)} figures, {len(outcomes)} cells: stored in {options.into}")
    else:
        print(markdown(studies[0], fill(studies[0], outcomes)))
    return 0


def _check(options: argparse.Namespace) -> int:
    from camdf.lab.past import CHAPTERS
    from camdf.lab.past.chapter import stored as stored_rows
    from camdf.lab.results import disagreements, read, sample
    from camdf.lab.studies import STUDIES

    stored = read(options.results)
    cells = [cell for study in STUDIES.values() for cell in study.cells]
    missing = [cell for cell in cells if cell.key not in stored.means]
    if missing:
        print(f"{len(missing)} cells have no stored result. Run: camdf lab run all", file=sys.stderr)
        return 1
    again = _replayed(sample(cells, options.cells, options.seed), 0, fresh=True)
    found = disagreements(stored, again)
    for chapter in CHAPTERS:
        rows = stored_rows(options.results, chapter.name)
        found += chapter.recheck(rows, options.seed, lambda jobs: _replayed(jobs, 0, fresh=True))
    for line in found:
        print(line, file=sys.stderr)
    print(
        f"{len(again)} cells of {len({cell.domain for cell in again})} domains and a sample of {len(CHAPTERS)} studies "
        f"past the paper measured again: {len(found)} figures disagree with the stored ones"
    )
    return 1 if found else 0


def _past(options: argparse.Namespace) -> int:
    from camdf.lab.past import CHAPTERS
    from camdf.lab.past.chapter import store
    from camdf.lab.past.page import write_page

    names = [chapter.name for chapter in CHAPTERS]
    if options.study not in (*names, "all", "page"):
        raise ValueError(f"There is no study {options.study!r} past the paper. Known: {', '.join(names)}, all, page")
    for chapter in CHAPTERS:
        if options.study in (chapter.name, "all"):
            rows = chapter.measure(lambda jobs: _replayed(jobs, options.workers, fresh=False))
            store(options.into, chapter.name, rows)
            print(f"{len(rows)} rows: stored in {options.into / chapter.name}.csv")
    write_page(options.into, CHAPTERS, options.page)
    print(f"wrote {options.page}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from camdf.lab.pages import picture_cells, write_html, write_markdown
    from camdf.lab.results import read

    stored, outcomes = read(options.results), _replayed(picture_cells(), 0, fresh=False)
    write = write_markdown if options.output.suffix == ".md" else write_html
    write(stored, outcomes, options.output)
    print(f"wrote {options.output}")
    return 0


def _study(name: str) -> Study:
    from camdf.lab.studies import STUDIES

    if name not in STUDIES:
        raise ValueError(f"There is no study {name!r}. Known: {', '.join(STUDIES)}")
    return STUDIES[name]


def _replayed(cells: Sequence[J], workers: int, fresh: bool) -> dict[J, Outcomes]:
    from camdf.lab.progress import progress
    from camdf.lab.running import default_cache, run_cells

    with progress("cells") as report:
        return run_cells(cells, workers=workers, cache=None if fresh else default_cache(), report=report)


if __name__ == "__main__":
    sys.exit(main())
