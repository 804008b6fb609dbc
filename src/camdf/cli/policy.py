"""Commands on policies: fit, evaluate, curve, calibrate."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from camdf._progress import shown
from camdf.core.payoff import VALUES, Payoff
from camdf.errors import UsageError, expect
from camdf.policies.artifact import load, save
from camdf.policies.camdf import CAMDF
from camdf.policies.registry import DEFAULT

if TYPE_CHECKING:
    from camdf.core.rankings import LoggedTasks
    from camdf.evaluation.fit import Fit
    from camdf.mining.spark.fit import Blocks
    from camdf.policies.base import Policy

PICTURES = (".png", ".svg", ".pdf")


def add_commands(commands: Any) -> None:
    """fit, evaluate, curve, calibrate."""
    fit = commands.add_parser("fit", help="learn a policy from logged tasks and say whether it pays")
    fit.add_argument("data", type=Path, help="logged tasks: .jsonl or .parquet")
    fit.add_argument("-o", "--output", type=Path, required=True, help="where to write the policy (.json)")
    fit.add_argument("--policy", default=DEFAULT, help=f"which policy to fit (default: {DEFAULT})")
    fit.add_argument("--explored-only", action="store_true", help="mined tasks: learn from explored runs alone")
    _add_payoff(fit, required=True)
    _add_splits(fit)
    add_engine(fit)
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
    calibrate.add_argument("policy", type=Path, help="a policy by expected payoff that camdf saved (.json)")
    calibrate.add_argument("data", type=Path, help="logged tasks that it was not fitted on: .jsonl or .parquet")
    target = calibrate.add_mutually_exclusive_group(required=True)
    target.add_argument("--min-sufficiency", type=float, help="share of tasks that get every required tool, as 0.95")
    target.add_argument("--budget", type=float, help="mean cost a task, in the unit of the costs")
    calibrate.add_argument("--per-task", action="store_true", help="with --budget: bound every task, not the mean")
    calibrate.add_argument("--value", choices=sorted(VALUES), default="exact", help="what an acquired set is worth")
    calibrate.set_defaults(run=_calibrate)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where a command runs."""
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="where it runs (default: local)")


def _add_payoff(parser: argparse.ArgumentParser, required: bool) -> None:
    pressure = parser.add_mutually_exclusive_group(required=required)
    pressure.add_argument("--cost-pressure", type=float, help="price of one unit of tool cost in solved tasks, as 0.12")
    pressure.add_argument("--task-worth", type=float, help="worth of a solved task in the unit of the costs, as 0.40")
    kept = "" if required else "; as in the fit where not given"
    parser.add_argument("--value", choices=sorted(VALUES), help=f"what an acquired set is worth{kept or ' (exact)'}")
    parser.add_argument("--recourse", type=float, help=f"left of a task for each tool missed, as 0.9{kept or ' (0)'}")


def _add_splits(parser: argparse.ArgumentParser, default: int = 30) -> None:
    parser.add_argument("--splits", type=int, default=default, help=f"how many train/test splits (default: {default})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits (default: 0)")


def _payoff(options: argparse.Namespace, fitted: Payoff | None = None) -> Payoff:
    """The payoff that the options name; what they leave out is as in the fit, where that is known."""
    named = {name: getattr(options, name) for name in ("cost_pressure", "value", "recourse")}
    if options.task_worth is not None:
        named["cost_pressure"] = Payoff.from_money(options.task_worth).cost_pressure
    given = {name: value for name, value in named.items() if value is not None}
    if fitted is None and "cost_pressure" not in given:
        raise UsageError("This policy does not say what it was fitted for. Name it: --cost-pressure or --task-worth")
    return replace(fitted or Payoff(0.0), **given)


def _fitted_payoff(policy: Policy) -> Payoff | None:
    """What a saved policy was fitted for, where the file says so."""
    training = policy.training_
    return getattr(policy, "payoff_", None) or (training.payoff if training is not None else None)


def _fit(options: argparse.Namespace) -> int:
    from camdf.evaluation.fit import fit
    from camdf.mining.logged import read_logged

    payoff, blocks = _payoff(options), None
    if options.engine == "spark":
        logged, blocks = _sampled_on_spark(options)
    else:
        logged = read_logged(options.data, explored_only=options.explored_only)
    with shown("splits") as progress:
        found = fit(logged, payoff, options.policy, splits=options.splits, seed=options.seed, progress=progress)
    print(_described(logged, payoff))
    print(found.assessment.table())
    print(f"\n{found.assessment.subject} {found.assessment.verdict}")
    if blocks is not None:
        found = _fitted_on_spark(found, blocks, len(logged), payoff)
    save(found.policy, options.output, found.training)
    noise = found.label_noise
    print(f"at most about {noise.rate:.1%} of labels look wrong (95% interval up to {noise.at_most:.1%})")
    print(f"wrote {options.output}\nOn tasks that came later: camdf evaluate {quote(str(options.output))} LATER.jsonl")
    return 0


def _sampled_on_spark(options: argparse.Namespace) -> tuple[LoggedTasks, Blocks]:
    """A sample of the tasks here, for what needs its tasks in one place, and all of them as blocks there."""
    from camdf.mining.logged import is_mined, logged_tasks, read_logged
    from camdf.mining.spark.fit import blocks_of, pack, sampled_tasks
    from camdf.mining.spark.session import session

    if not is_mined(options.data):
        logged = read_logged(options.data, explored_only=options.explored_only)
        return logged, blocks_of(session(), logged)
    tasks = session().read.parquet(str(options.data))
    if options.explored_only:
        tasks = tasks.filter("explored")
    blocks = pack(tasks)
    blocks.require_some()
    print(blocks)
    return logged_tasks(sampled_tasks(tasks, seed=options.seed)), blocks


def _fitted_on_spark(found: Fit, blocks: Blocks, sampled: int, payoff: Payoff) -> Fit:
    """The policy fitted on every task where that can be done in passes; else as the sample made it."""
    from camdf.mining.spark.fit import fit_on_blocks

    policy = found.policy
    if not (isinstance(policy, CAMDF) and policy.fits_in_passes):
        print(f"\nFitted on a sample of {sampled:,} tasks: {policy.kind} needs its tasks in one place.")
        return found
    fitted = fit_on_blocks(policy, blocks, payoff, start=policy.model_)
    print(f"\nFitted on all {len(blocks):,} tasks by Newton's method. The table is of fits on {sampled:,} of them.")
    return replace(found, policy=fitted, training=replace(found.training, tasks=len(blocks), validation_tasks=0))


def _evaluate(options: argparse.Namespace) -> int:
    from camdf.evaluation.assess import Fixed, assess
    from camdf.mining.logged import read_logged

    policy, logged = load(options.policy), read_logged(options.data)
    payoff = _payoff(options, _fitted_payoff(policy))
    with shown("splits") as progress:
        assessment = assess(
            lambda: Fixed(policy), logged, payoff, splits=options.splits, seed=options.seed, progress=progress
        )
    print(_described(logged, payoff))
    print(assessment.table())
    training = policy.training_
    if training is not None and training.data_sha256 == logged.digest():
        print("\nThis policy was fitted on these very tasks, which flatters it. Evaluate it on tasks it has not seen.")
    print(f"\n{options.policy} {assessment.verdict}")
    return 0


def _curve(options: argparse.Namespace) -> int:
    from camdf.evaluation.curve import draw_steps, points_of, replay_steps, table, verdict
    from camdf.mining.logged import read_logged

    logged, payoff = read_logged(options.data), _payoff(options)
    if options.output is not None:
        if options.output.suffix not in PICTURES:
            raise UsageError(f"The output must end in .png, .svg or .pdf. Got {options.output.name!r} instead.")
        expect("matplotlib", "lab")  # now, and not after minutes of fits
    steps = draw_steps(logged, options.splits, options.seed)
    with shown("fits of three policies") as progress:
        points = points_of(replay_steps(logged, payoff, steps, progress), steps)
    print(_described(logged, payoff))
    print(table(points))
    if options.output is not None:
        from camdf.lab.learning_curve import curve_picture

        curve_picture(points).savefig(options.output, dpi=200)
        print(f"wrote {options.output}")
    print(f"\n{verdict(points)}")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    from camdf.mining.logged import read_logged
    from camdf.policies.pressure import pressure_for_budget, pressure_for_sufficiency

    policy, logged = load(options.policy), read_logged(options.data)
    training = policy.training_
    if options.budget is not None:
        payoff = pressure_for_budget(policy, logged, options.value, budget=options.budget, per_task=options.per_task)
    elif training is not None and training.data_sha256 == logged.digest():
        raise UsageError("This policy was fitted on these very tasks, which can promise nothing. Name other tasks.")
    else:
        payoff = pressure_for_sufficiency(policy, logged, options.value, min_sufficiency=options.min_sufficiency)
    print(_described(logged, payoff))
    print(f"--cost-pressure {payoff.cost_pressure!r}")
    return 0


def _described(logged: LoggedTasks, payoff: Payoff) -> str:
    incomplete = (logged.missing > 0).mean()
    return (
        f"{len(logged)} tasks, {len(set(logged.groups.tolist()))} groups, up to {logged.rankings.width} candidates, "
        f"{logged.n_required.mean():.2f} tools required on average; {incomplete:.0%} of lists lack a required tool.\n"
        f"Payoff: {payoff.value} value minus {payoff.cost_pressure:g} times cost"
        f"{f', with {payoff.recourse:g} left for each tool missed' if payoff.recourse else ''}.\n"
    )
