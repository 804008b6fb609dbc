"""Commands on policies: fit, evaluate, curve, calibrate."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from camdf.cli.blas_threads import one_blas_thread
from camdf.cli.logs import (
    FILES,
    add_log,
    check_scores,
    is_log,
    listed_tools,
    named_scorer,
    ranked_log,
    read_log,
    scored_by,
    scorer_for,
    with_hint,
)
from camdf.cli.money import (
    AS_FITTED,
    FOUND,
    add_dollars,
    add_payoff,
    chosen_payoff,
    exposing_tools,
    in_dollars,
    named_effects,
    named_prices,
    on_tasks,
    recourse_of_a_search,
    rules_compared,
)
from camdf.cli.parser import add_json, check_output, notes_stream, print_json
from camdf.cli.tool_names import add_copies, chosen_copies, chosen_renames
from camdf.cli.tools import add_scorer_mismatch
from camdf.core.payoff import VALUES, Payoff
from camdf.datasets.examples import (
    logged_examples,
    made_up_in,
    past_tasks,
    read_examples,
    renamed_examples,
    write_examples,
)
from camdf.datasets.ids import hashed, id_key
from camdf.datasets.tool_names import joined_copies, of_gated, renamed
from camdf.datasets.triggers import is_triggers
from camdf.errors import DataError, UsageError, expect
from camdf.examples.mined import (
    AskedBy,
    Uncensored,
    is_mined,
    mined_tasks,
    read_uncensored,
    seeing_every_tool,
)
from camdf.policies.artifact import load, save
from camdf.policies.base import Policy, copies_of, fitted_payoff
from camdf.policies.by_depth import ExpectedPayoffByDepth
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.copies import NO_COPIES, Copies
from camdf.policies.models.past_tasks import PastTasks
from camdf.policies.registry import DEFAULT, LIBRARY, POLICIES, own_policy, policy_name
from camdf.policies.stopping import StoppingPolicy
from camdf.policies.training import GIVEN, ScorerRecord
from camdf.runtime.files import whole_file
from camdf.runtime.progress import shown
from camdf.scorers import record_of

if TYPE_CHECKING:
    from camdf.core.rankings import GatedTasks, LoggedTasks
    from camdf.evaluation.assess import Assessment
    from camdf.evaluation.confusions import Confused
    from camdf.evaluation.fit import Fit
    from camdf.evaluation.maybe_copies import MaybeCopies
    from camdf.policies.drift import Moved
    from camdf.policies.renames import Renames

PICTURES = (".png", ".svg", ".pdf")
GROUPS_SHOWN = 3
"""So many groups of tools that may do the same are named."""

FOLDS = 5
"""On so many parts of the tasks, each held out from a fit, --covered finds its pressure: every task is in one."""

NOT_SHOWN_TO_PAY = 3
"""The exit code of a policy that must pay, and is not shown to."""

PAYS_OR_NOT = {NOT_SHOWN_TO_PAY: "with --must-pay: the policy is not shown to be worth it"}


def add_commands(commands: Any) -> None:
    """fit, evaluate, curve, calibrate."""
    fit = commands.add(_fit, codes=PAYS_OR_NOT)
    option = fit.add_argument
    option("data", type=Path, help=FILES)
    option("-o", "--output", type=Path, required=True, help="where to write the policy (.json)")
    add_log(fit, ", and with --prices")
    option("--policy", default=DEFAULT, help=f"which policy to fit, or module:Class of your own (default: {DEFAULT})")
    option("--prior", type=Path, metavar="POLICY", help="start from a policy fitted before for these tools (.json)")
    option(
        "--remember", type=Path, metavar="EXAMPLES", help="keep what similar requests needed, without texts (.jsonl)"
    )
    option("--keep-text", action="store_true", help="with --remember: keep the requests, too, to explain decisions")
    add_copies(fit)
    add_payoff(fit, required=True, targets=True)
    _add_splits(fit)
    _add_seconds(fit)
    add_engine(fit)
    _add_must_pay(fit, "; the policy is written either way")
    add_json(fit)

    evaluate = commands.add(_evaluate, codes=PAYS_OR_NOT)
    evaluate.add_argument("policy", type=Path, help="a policy that camdf saved (.json)")
    evaluate.add_argument("data", type=Path, help=FILES)
    add_log(evaluate)
    add_saved(evaluate)
    add_payoff(evaluate, required=False, targets=True)
    _add_splits(evaluate)
    _add_seconds(evaluate)
    _add_must_pay(evaluate)
    add_json(evaluate)

    curve = commands.add(_curve)
    curve.add_argument("data", type=Path, help=FILES)
    add_log(curve)
    curve.add_argument("-o", "--output", type=Path, help="where to draw it (.png, .svg or .pdf)")
    add_payoff(curve, required=True)
    add_dollars(curve)
    _add_splits(curve, default=20)
    add_json(curve)

    calibrate = commands.add(_calibrate)
    calibrate.add_argument("policy", type=Path, help="a policy by expected payoff that camdf saved (.json)")
    calibrate.add_argument("data", type=Path, help=f"tasks that it was not fitted on: {FILES}")
    add_log(calibrate)
    add_saved(calibrate)
    target = calibrate.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--min-sufficiency", "--sufficiency", type=float, help="share of tasks that get every required tool, as 0.95"
    )
    target.add_argument("--budget", type=float, help="mean cost a task, in dollars with --prices, else as costs are")
    target.add_argument("--mean-tools", type=float, metavar="N", help="or: how many tools a task gets on average")
    target.add_argument("--task-worth", type=float, help="or: what a solved task is worth, in the unit of --budget")
    add_dollars(calibrate)
    calibrate.add_argument("--tool-search", action="store_true", help=f"the agent can search: a recourse of {FOUND}")
    calibrate.add_argument("--per-task", action="store_true", help="with --budget: bound every task, not the mean")
    calibrate.add_argument("--value", choices=sorted(VALUES), help=f"what an acquired set is worth ({AS_FITTED})")
    add_json(calibrate)


def add_saved(parser: argparse.ArgumentParser) -> None:
    """The class that a policy of your own was saved from, and the past requests that a policy recalls."""
    parser.add_argument(
        "--policy", dest="own", metavar="MODULE:CLASS", help="the class of a saved policy of your own, as module:Class"
    )
    parser.add_argument("--examples", type=Path, help="past requests for it, as camdf fit --remember wrote (.jsonl)")
    add_scorer_mismatch(parser)


def saved_policy(options: argparse.Namespace) -> Policy:
    """The policy that a command names, with its past requests; one of your own by its class."""
    classes = LIBRARY if options.own is None else (*LIBRARY, own_class(options.own))
    renames = chosen_renames(options)
    policy = load(options.policy, classes, renamed=renames)
    if options.examples is None:
        return policy
    return _recalling_examples(policy, options.examples, renames)


def _recalling_examples(policy: Policy, examples: Path, renames: Renames) -> Policy:
    """A policy with the past requests of a file."""
    past = past_tasks(renamed_examples(read_examples(examples), renames))
    if past is not None and policy.recalls:
        return policy.recalling(past)
    why = "was fitted without past requests"
    if policy.recalls:
        why = f"needs past requests, and {examples} has none"
    raise UsageError(f"This policy {why}. Leave out --examples, or name what camdf fit --remember wrote.")


def recall_warning(policy: Policy, logged: LoggedTasks) -> list[str]:
    """That a policy decides without past requests, if so; an error where these tasks cannot be compared with them."""
    past: PastTasks | None = getattr(policy, "past_", None)
    if past is not None and past.dimensions:
        vectors = logged.rankings.vectors
        past.check_vectors(0 if vectors is None else vectors.shape[1], "these tasks have")
    elif policy.recalls:
        return ["This policy recalls past requests, and decides without any here. Name their file: --examples"]
    return []


def own_class(place: str) -> type[Policy]:
    """The class that `module:Class` names, of a module here or of an installed one."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return own_policy(place)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where a command runs."""
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="where it runs (default: local)")


def _add_splits(parser: argparse.ArgumentParser, default: int = 30) -> None:
    parser.add_argument("--splits", type=int, default=default, help=f"how many train/test splits (default: {default})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits (default: 0)")


def _add_seconds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="how long to compare: no further split is begun, and the answer says how many were (default: 60)",
    )


def _add_must_pay(parser: argparse.ArgumentParser, also: str = "") -> None:
    parser.add_argument(
        "--must-pay", action="store_true", help=f"exit with 3 instead of 0 where it is not shown to be worth it{also}"
    )


def _check_splits(options: argparse.Namespace) -> None:
    if options.splits < 1 or options.seed < 0:
        raise UsageError(
            f"The --splits must be at least 1 and the --seed at least 0. Got {options.splits} and {options.seed}."
        )


def _read_tasks(options: argparse.Namespace) -> tuple[Uncensored, ScorerRecord]:
    """The tasks of a command, without those from which a gate had cut tools, and what gave their scores."""
    if is_log(options, options.data):
        scorer, settings = named_scorer(options.scorer)
        logged = ranked_log(options, options.data, scorer, settings).logged
        return seeing_every_tool(logged), record_of(scorer)
    return _read_uncensored(options), scored_by(options.data) or GIVEN


def _read_uncensored(options: argparse.Namespace) -> Uncensored:
    """Tasks that have scores, under their tools' new names."""
    renames = chosen_renames(options)
    try:
        with shown("MB read", after=1.0) as progress:
            read = read_uncensored(options.data, progress)
        if not renames:
            return read
        logged = renamed(read.logged, renames)
        gated = read.gated and of_gated(read.gated, lambda some: renamed(some, renames))
    except DataError as error:
        raise with_hint(error, options.data) from None
    return read._replace(logged=logged, gated=gated, digests=read.digests | {logged.digest()})


def uncensored_tasks(options: argparse.Namespace, policy: Policy) -> Uncensored:
    """The tasks of a command, as a policy's own scorer ranks them, without those from which a gate had cut tools."""
    if is_log(options, options.data):
        read = seeing_every_tool(ranked_log(options, options.data, *scorer_for(policy, options)).logged)
        return _with_users_for(policy, read, options)
    check_scores(policy, scored_by(options.data), options)
    return _with_users_for(policy, _read_uncensored(options), options)


def _with_users_for(policy: Policy, read: Uncensored, options: argparse.Namespace) -> Uncensored:
    """The same tasks, with the users who asked where the policy recalls what they needed before."""
    if not policy.recalls:
        return read
    return read._replace(logged=_with_users(read.logged, _asked_by_task(options)))


class TasksToFit(NamedTuple):
    """What a policy is fitted to."""

    logged: LoggedTasks
    scorer: ScorerRecord
    """What gave their scores."""

    asked: dict[str, AskedBy]
    """For --remember, by task: what was asked and by whom, as far as the data say it; users are hashed as in traces."""

    warnings: list[str]
    """What a gate did to them."""

    left_out: int = 0
    """From how many others a gate had cut tools."""

    gated: GatedTasks | None = None
    """Those, as far as somebody recorded what they were offered."""

    copies: Copies = NO_COPIES
    """The tools that these tasks have as one with another."""


def _fit(options: argparse.Namespace) -> int:
    """Learn a policy from logged tasks, and say if it is worth it.

    camdf fit logged.jsonl -o policy.json --cost-pressure 0.12
    """
    from camdf.evaluation.assess import estimated_none
    from camdf.evaluation.fit import fit
    from camdf.evaluation.maybe_copies import maybe_copies
    from camdf.evaluation.splits import draw_splits

    if ":" in options.policy and not vars(own_class(options.policy)).get("kind"):
        raise UsageError(
            f"The policy {options.policy} must have a 'kind', under which it is saved. Add one to its class."
        )
    payoff = chosen_payoff(options)
    name = policy_name(options.policy)
    prior = _load_prior(options)
    _check_splits(options)
    _check_fit_outputs(options)
    tasks = _tasks_to_fit(options)
    logged = tasks.logged
    gated = tasks.gated
    if options.keep_text and not any(known.text for known in tasks.asked.values()):
        raise UsageError(
            f"{options.data} has no texts for --keep-text. Fit from a log of requests with --tools, or from what camdf "
            "score --keep-text wrote."
        )
    if name in POLICIES and _needs_sklearn(POLICIES[name]()):
        expect("sklearn", "train")  # now, and not after a line of progress
    one_blas_thread()
    start = prior or "either"

    def on_all(like: Payoff) -> Policy:
        return ExpectedPayoffBySet(prior=start).fit(logged, like, gated=gated)

    def held_out(like: Payoff) -> Iterator[tuple[Policy, LoggedTasks]]:
        for split in draw_splits(logged, FOLDS, options.seed, grouped=True, shares=(0.6, 0.2)):
            known = logged.take([*split.train, *split.validation])
            apart = gated and gated.without(logged.groups[split.test].tolist())
            yield ExpectedPayoffBySet(prior=start).fit(known, like, gated=apart), logged.take(split.test)

    payoff = on_tasks(options, payoff, logged, on_all, held_out)
    made_up = made_up_in(options.data) if is_log(options, options.data) else 0
    fitted = fit(
        logged,
        payoff,
        name,
        prior=prior,
        remember=options.remember is not None,
        made_up=made_up,
        scorer=tasks.scorer,
        effects=named_effects(options),
        copies=tasks.copies,
        seed=options.seed,
        gated=gated,
    )
    save(fitted.policy, options.output, fitted.training)
    past: PastTasks | None = None
    if fitted.policy.recalls:
        past = _tasks_to_remember(options, tasks)
        write_examples(options.remember, logged_examples(past))
    print(f"wrote {options.output}. Now it is compared; Ctrl-C stops that and keeps it.", file=sys.stderr, flush=True)
    with shown("splits") as progress:
        assessment = fitted.assess(
            logged,
            payoff,
            splits=options.splits,
            seed=options.seed,
            rules=rules_compared(options),
            with_effects=exposing_tools(options),
            seconds=options.seconds,
            progress=progress,
        )
    save(fitted.policy, options.output, fitted.training_with(assessment))
    warnings = [
        *assessment.alarms(payoff),
        *tasks.warnings,
        *assessment.warnings(),
        *_made_up_warning(options, made_up),
    ]
    none = estimated_none(fitted.policy, logged, payoff)
    if not options.json:
        _print_assessment(options, logged, payoff, assessment, name, warnings)
        _print_share_of_none(logged, none)
        if tasks.left_out:
            print(_what_gated_tasks_taught(tasks, fitted))
    unread = _unread_examples(options, past)
    alike = maybe_copies(logged)
    if not options.json:
        _print_copies(tasks.copies, alike)
        _print_fitted(options, logged, fitted, past, unread)
        return _exit_code_of(options, assessment)
    document = {
        **_data_and_payoff(logged, payoff),
        "policy": name,
        "wrote": str(options.output),
        "label_noise": {**asdict(fitted.label_noise), "tasks": fitted.label_noise.share_of_tasks(logged)},
        "made_up": made_up,
        "reads_texts": fitted.policy.reads_texts,
        "need_no_tool_estimated": none,
    }
    if tasks.left_out:
        document["gated"] = {"tasks": tasks.left_out, "learned_from": fitted.learned_from_gated}
    if tasks.copies:
        document["copies"] = dict(tasks.copies)
    if alike:
        document["maybe_copies"] = [pair._asdict() for pair in alike]
    if past is not None:
        document["remembers"] = len(past)
    document |= assessment.summary()
    document["meaning"] = _meaning(options, assessment, payoff)
    document["warnings"] = [*warnings, *unread]
    print_json(document)
    return _exit_code_of(options, assessment)


def _check_fit_outputs(options: argparse.Namespace) -> None:
    """Refuse places that cannot be written to before the fit."""
    check_output(options.output, (".json",))
    if options.remember is not None:
        check_output(options.remember, (".jsonl",))
        _check_replaceable(options.remember)
    elif options.keep_text:
        raise UsageError("--keep-text says what --remember keeps. Name a file for it: --remember past.jsonl")


def _check_replaceable(path: Path) -> None:
    """A fit replaces what an earlier one kept, and nothing else: made-up requests cost money."""
    try:
        kept = not path.exists() or all(example.origin == "logged" for example in read_examples(path))
    except DataError:
        kept = False
    if not kept:
        raise UsageError(f"--remember would replace {path}, which no earlier fit wrote. Name a file of its own for it.")


def _tasks_to_fit(options: argparse.Namespace) -> TasksToFit:
    """Tasks that are read here, or a sample that Spark draws of mined ones; in dollars where prices are named."""
    tasks = _sampled_on_spark(options) or _whole_tasks_to_fit(options)
    logged = in_dollars(options, tasks.logged)
    if options.remember is not None:
        logged = _with_users(logged, tasks.asked)
    copies = chosen_copies(options, logged)
    gated = tasks.gated and of_gated(tasks.gated, lambda some: joined_copies(some, copies))
    return tasks._replace(logged=joined_copies(logged, copies), gated=gated, copies=copies)


def _with_users(logged: LoggedTasks, asked: dict[str, AskedBy]) -> LoggedTasks:
    """Tasks with the hashed ids of those who asked, where the data say who."""
    users = [asked.get(task_id, AskedBy()).user for task_id in logged.task_ids.tolist()]
    written = logged.rankings.users
    if not any(users) and written is not None:
        key = id_key()
        users = [hashed(user, key) for user in written.tolist()]
    if not any(users):
        return logged
    return replace(logged, rankings=replace(logged.rankings, users=np.array(users, dtype=np.str_)))


def _whole_tasks_to_fit(options: argparse.Namespace) -> TasksToFit:
    read, scorer = _read_tasks(options)
    asked = {} if options.remember is None else _asked_by_task(options)
    warnings = read.warnings if read.censored else []
    return TasksToFit(read.logged, scorer, asked, warnings, read.left_out, read.gated)


def _sampled_on_spark(options: argparse.Namespace) -> TasksToFit | None:
    """A sample of mined tasks; None where Spark is not asked for, and for files that are read whole."""
    if options.engine != "spark" or not is_mined(options.data):
        return None
    sample = mined_tasks().sampled_on_spark(options.data, seed=options.seed)
    if sample is None:
        return None
    print(f"{sample.sentence}\n", file=notes_stream(options))
    logged = renamed(sample.logged, chosen_renames(options))
    return TasksToFit(logged, scored_by(options.data) or GIVEN, sample.asked, [])


def _asked_by_task(options: argparse.Namespace) -> dict[str, AskedBy]:
    """What `TasksToFit.asked` has."""
    if is_log(options, options.data):
        log = read_log(options, options.data, listed_tools(options.tools))
        key = id_key() if "user" in log.columns else b""
        return {request.task_id: AskedBy(request.text, hashed(request.user, key)) for request in log.requests}
    if is_mined(options.data):
        return mined_tasks().asked_in_table(options.data)
    return {}


def _tasks_to_remember(options: argparse.Namespace, tasks: TasksToFit) -> PastTasks:
    """What is kept of the tasks of a log, the latest as the log has them."""
    known = [tasks.asked.get(task_id, AskedBy()) for task_id in tasks.logged.task_ids.tolist()]
    texts = tuple(asked.text for asked in known) if options.keep_text else ()
    return replace(PastTasks.all_of(tasks.logged), texts=texts).bounded()


def _unread_examples(options: argparse.Namespace, past: PastTasks | None) -> list[str]:
    """That the file of --remember is of an earlier fit, where this one wrote none."""
    if past is not None or options.remember is None or not options.remember.exists():
        return []
    return [f"{options.remember} is of an earlier fit, and this policy does not read it."]


def _print_copies(copies: Copies, alike: Sequence[MaybeCopies]) -> None:
    """Which tools are decided on as one, and which others may do the same."""
    from camdf.evaluation.maybe_copies import copies_among

    for tool, same in _by_tool(copies).items():
        print(f"decided on as one: {', '.join([tool, *same])}")
    suggested = _by_tool(copies_among(alike))
    for tool, same in list(suggested.items())[:GROUPS_SHOWN]:
        told = " ".join(f"--copies {quote(f'{copy}={tool}')}" for copy in same)
        print(
            f"{', '.join([tool, *same])} may do the same: no task needed two of them, and their scores go together. If "
            f"they do: {told}"
        )
    if len(suggested) > GROUPS_SHOWN:
        print(f"So may {len(suggested) - GROUPS_SHOWN} more groups of tools: --json has all pairs")


def _by_tool(copies: Copies) -> dict[str, list[str]]:
    """The copies of each tool that has some."""
    groups: dict[str, list[str]] = {}
    for copy, tool in copies.items():
        groups.setdefault(tool, []).append(copy)
    return groups


def _print_fitted(
    options: argparse.Namespace, logged: LoggedTasks, fitted: Fit, past: PastTasks | None, unread: list[str]
) -> None:
    """What was learned besides the payoff, what was written, and what to run next."""
    if logged.rankings.vectors is not None:
        helps = "does not help, and is left out"
        if fitted.policy.reads_texts:
            helps = "helps, and the policy reads it"
        print(f"what was asked, by the vectors of the tasks, {helps}")
    noise = fitted.label_noise
    by_task = noise.share_of_tasks(logged)
    print(
        f"at most about {noise.rate:.1%} of labels look wrong (95% interval up to {noise.at_most:.1%}); spread evenly, "
        f"that is in {by_task:.0%} of tasks"
    )
    if options.remember is not None:
        print(_what_past_requests_do(options, fitted.policy, past))
    for line in unread:
        print(line)
    print(f"wrote {options.output}")
    command = _evaluate_command(options, options.output, f"newer{options.data.suffix or '.parquet'}")
    if past:
        command += f" --examples {quote(str(options.remember))}"
    print(f"On newer tasks: {command}")


def _what_past_requests_do(options: argparse.Namespace, policy: Policy, past: PastTasks | None) -> str:
    """Whether similar past requests help, and those of whoever asks, in a sentence."""
    helping = []
    if getattr(policy, "with_past_", None) is not None:
        helping.append("similar past requests")
    if getattr(policy, "own_multiple_", 0.0):
        helping.append("a user's own past requests")
    if past is None or not helping:
        return "past requests do not help, and none is kept"
    return f"{' and '.join(helping)} help, and {options.remember} has {len(past)} of them"


def _load_prior(options: argparse.Namespace) -> ExpectedPayoffBySet | None:
    if options.prior is None:
        return None
    policy = load(options.prior, renamed=chosen_renames(options))
    if not isinstance(policy, ExpectedPayoffBySet):
        raise UsageError(f"The --prior must be of the kind {DEFAULT}. Got {policy.kind} instead.")
    return policy


def _made_up_warning(options: argparse.Namespace, made_up: int) -> list[str]:
    if not made_up:
        return []
    return [
        f"{made_up} of the labels are made up, and so is what is said above: it promises nothing about real tasks. "
        f"How far off it is, real ones tell: camdf evaluate {quote(str(options.output))} real.jsonl "
        f"--tools {quote(str(options.tools))}"
    ]


def _evaluate(options: argparse.Namespace) -> int:
    """Measure a saved policy on tasks, beside tuned simple rules.

    camdf evaluate policy.json newer.jsonl
    """
    from camdf.evaluation.assess import assess, estimated_none, moved_since_fit, unseen_warning
    from camdf.evaluation.replay import Fixed

    policy = saved_policy(options)
    payoff = chosen_payoff(options, fitted_payoff(policy))
    _check_splits(options)
    read = uncensored_in_dollars(options, policy)
    logged = read.logged
    without_past = recall_warning(policy, logged)
    payoff = on_tasks(options, payoff, logged, lambda like: policy, lambda like: [(policy, logged)])
    moved = moved_since_fit(policy, logged)
    with shown("splits") as progress:
        assessment = assess(
            lambda: Fixed(policy),
            logged,
            payoff,
            splits=options.splits,
            seed=options.seed,
            rules=rules_compared(options),
            with_effects=exposing_tools(options),
            refit=_maker_of_refit(policy) if moved else None,
            seconds=options.seconds,
            progress=progress,
        )
    warnings = [*assessment.alarms(payoff), *read.warnings, *assessment.warnings(), *unseen_warning(policy, logged)]
    warnings += [*_off_by(policy, assessment, payoff), *without_past]
    if _fitted_on(policy, read):
        warnings.append(
            "This policy was fitted on these very tasks, which flatters it. Evaluate it on tasks it has not seen."
        )
    none = estimated_none(policy, logged, payoff)
    confused = _confusions_of_triggers(options, policy, logged, payoff)
    if options.json:
        document = {
            **_data_and_payoff(logged, payoff),
            "policy": policy.kind,
            "need_no_tool_estimated": none,
            **assessment.summary(),
            "meaning": _meaning(options, assessment, payoff),
            "moved": moved_as_json(moved),
            "refit": assessment.refit_gain and asdict(assessment.refit_gain),
            "warnings": warnings,
        }
        if confused is not None:
            document["triggers"] = [one.as_record() for one in confused]
        print_json(document)
    else:
        _print_assessment(options, logged, payoff, assessment, str(options.policy), warnings)
        _print_share_of_none(logged, none)
        print_moved(moved)
        print_confusions(confused)
        if advice := assessment.refit_advice():
            print(advice)
    return _exit_code_of(options, assessment)


def _confusions_of_triggers(
    options: argparse.Namespace, policy: Policy, logged: LoggedTasks, payoff: Payoff
) -> list[Confused] | None:
    """What a policy chose instead of the skills that trigger tests want; None where the tasks are no such tests."""
    if not (is_log(options, options.data) and is_triggers(options.data)):
        return None
    from camdf.evaluation.confusions import confusions_on

    return confusions_on(policy, logged, payoff)


def print_confusions(confused: Sequence[Confused] | None) -> None:
    """A line for every skill that was missed or chosen in vain."""
    if confused is not None:
        from camdf.evaluation.confusions import lines_of_confusions

        print("", "Skills chosen of those that were needed:", *lines_of_confusions(confused), sep="\n  ")


def _maker_of_refit(policy: Policy) -> Callable[[], Policy] | None:
    """Makes the policy as it was before its fit; None where it learns nothing, or by scikit-learn, which is missing."""
    if type(policy).fit is Policy.fit or (_needs_sklearn(policy) and find_spec("sklearn") is None):
        return None
    one_blas_thread()
    return lambda: type(policy)(**policy.get_params())


def _needs_sklearn(policy: Policy) -> bool:
    """Whether a fit of it calls scikit-learn."""
    return isinstance(policy, StoppingPolicy | ExpectedPayoffByDepth)


def print_moved(moved: Sequence[Moved]) -> None:
    """A line for everything that is no longer as it was at the fit."""
    for change in moved:
        print(f"Moved: {change.sentence}")


def print_moved_and_what_to_run(options: argparse.Namespace, policy: Path, moved: Sequence[Moved]) -> None:
    """The same, and where something has moved the command that says whether to fit again."""
    print_moved(moved)
    if moved:
        print(f"Whether to refit: {_evaluate_command(options, policy, str(options.data))}")


def _evaluate_command(options: argparse.Namespace, policy: Path, data: str) -> str:
    """What measures a policy on such data as a command has read."""
    command = f"camdf evaluate {quote(str(policy))} {quote(data)}"
    effects = getattr(options, "effects", None)
    if effects is not None or is_log(options, options.data):
        command += f" --tools {quote(str(options.tools))}"
    if effects is not None:
        command += f" --effects {quote(str(effects))}"
    return command


def moved_as_json(moved: Sequence[Moved]) -> list[dict[str, str]]:
    """The same for machines."""
    return [change._asdict() for change in moved]


def _off_by(policy: Policy, assessment: Assessment, payoff: Payoff) -> list[str]:
    """How far a policy of made-up tasks is off, where both were measured under one payoff."""
    training = policy.training_
    if training is None or not training.made_up or training.payoff != payoff:
        return []
    before = training.validation_payoff.get(policy.kind)
    if before is None:
        return []
    now = assessment.outcomes.mean(assessment.subject)
    return [
        f"This policy was fitted on made-up tasks, on which it earned {before:.3f}. On these it earns {now:.3f}: off "
        f"by {now - before:+.3f}. To learn from these, start there: camdf fit --prior"
    ]


def _curve(options: argparse.Namespace) -> int:
    """Say how many labeled tasks are enough.

    camdf curve logged.jsonl --cost-pressure 0.12 -o curve.png
    """
    from camdf.evaluation.curve import draw_steps, points_of, replay_steps, table, verdict

    payoff = chosen_payoff(options)
    _check_splits(options)
    if options.output is not None:
        check_output(options.output, PICTURES)
        expect("matplotlib", "plot")  # now, and not after minutes of fits
    logged = in_dollars(options, _read_tasks(options)[0].logged)
    one_blas_thread()
    steps = draw_steps(logged, options.splits, options.seed)
    with shown("fits of three policies") as progress:
        replayed = replay_steps(logged, payoff, steps, progress, with_effects=exposing_tools(options))
        points = points_of(replayed, steps)
    if options.output is not None:
        from camdf.evaluation.curve_picture import curve_picture

        with whole_file(options.output) as new:
            curve_picture(points).savefig(new, format=options.output.suffix.removeprefix("."), dpi=200)
    if options.json:
        drawn = [asdict(point) for point in points]
        print_json({**_data_and_payoff(logged, payoff), "points": drawn, "verdict": verdict(points)})
        return 0
    print(_data_and_payoff_in_words(logged, payoff))
    print(table(points))
    if options.output is not None:
        print(f"wrote {options.output}")
    print(f"\n{verdict(points)}")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    """Find the cost pressure for a promised sufficiency or a budget.

    camdf calibrate policy.json fresh.jsonl --min-sufficiency 0.9
    """
    from camdf.evaluation.calibrate import TARGETS, calibrate

    if options.per_task and options.budget is None:
        raise UsageError(
            "--per-task bounds the cost of every task, so it goes with --budget. Name one, or leave it out."
        )
    policy = saved_policy(options)
    fitted = fitted_payoff(policy) or Payoff(0.0)
    read = uncensored_in_dollars(options, policy)
    logged = read.logged
    if options.min_sufficiency is not None and _fitted_on(policy, read):
        raise UsageError("This policy was fitted on these very tasks, which can promise nothing. Name other tasks.")
    if options.min_sufficiency is not None and read.censored:
        raise UsageError(f"These tasks can promise nothing. {read.warnings[0]}")
    warnings = [*read.warnings, *recall_warning(policy, logged)]
    calibration = calibrate(
        policy,
        logged,
        options.value or str(fitted.value),
        recourse_of_a_search(options) if options.tool_search else fitted.recourse,
        **{name: getattr(options, name) for name in TARGETS},
        per_task=options.per_task,
    )
    if options.json:
        document = {**_data_and_payoff(logged, calibration.payoff), **calibration.summary(), "warnings": warnings}
        print_json(document)
        return 0
    print(_data_and_payoff_in_words(logged, calibration.payoff))
    print(calibration.sentences(_unit_of_costs(options)))
    for warning in warnings:
        print(f"Warning: {warning}")
    print(f"\n--cost-pressure {calibration.payoff.cost_pressure!r}")
    return 0


def uncensored_in_dollars(options: argparse.Namespace, policy: Policy) -> Uncensored:
    """The tasks that a saved policy is measured on, with tools in dollars where prices are named.

    Of tools that the policy knows as one, they list one.
    """
    training = policy.training_
    if training is not None and training.effects is not None and options.effects is None:
        raise UsageError("This policy was fitted where effects have a price. Name what tools can do: --effects FILE")
    read = uncensored_tasks(options, policy)
    logged = joined_copies(in_dollars(options, read.logged), copies_of(policy))
    if logged is read.logged:
        return read
    return read._replace(logged=logged, digests=read.digests | {logged.digest()})


def _fitted_on(policy: Policy, read: Uncensored) -> bool:
    return policy.training_ is not None and policy.training_.data_sha256 in read.digests


def _print_assessment(
    options: argparse.Namespace,
    logged: LoggedTasks,
    payoff: Payoff,
    assessment: Assessment,
    name: str,
    warnings: list[str],
) -> None:
    alarms = assessment.alarms(payoff)
    for alarm in alarms:
        print(f"Beware: {alarm}")
    if alarms:
        print()
    print(_data_and_payoff_in_words(logged, payoff))
    print(f"{assessment.table()}\n")
    print(f"{name} {assessment.verdict}")
    if assessment.splits < options.splits:
        print(f"That is after {assessment.splits} of {options.splits} splits. More --seconds make it surer.")
    print(_meaning(options, assessment, payoff))
    print(assessment.against_every_tool(options.task_worth))
    if danger := assessment.danger():
        print(danger)
    for warning in warnings[len(alarms) :]:
        print(f"Warning: {warning}")


def _what_gated_tasks_taught(tasks: TasksToFit, fitted: Fit) -> str:
    """What became of the tasks from which a gate had cut tools, in a sentence."""
    many = f"{tasks.left_out:,} tasks" if tasks.left_out > 1 else "1 task"
    from_those = f"From {many} a gate had cut tools"
    if tasks.gated is None:
        return f"{from_those}, and nobody recorded what was left: the policy learned from the others alone."
    if not fitted.learned_from_gated:
        return f"{from_those}: a policy of this kind learns from the others alone."
    known = len(tasks.gated.logged)
    return f"{from_those}: the policy learned from the others, and then from what {known:,} of these were offered."


def _print_share_of_none(logged: LoggedTasks, estimated: float | None) -> None:
    """How many tasks need no tool, by labels and as the policy sees it; nothing where neither says that any do."""
    known = float((logged.n_required == 0).mean())
    if estimated is not None:
        print(f"{known:.0%} of these tasks need no tool, and the policy expects {estimated:.0%}.")
    elif known:
        print(f"{known:.0%} of these tasks need no tool, and the policy takes every task to need one.")


def _meaning(options: argparse.Namespace, assessment: Assessment, payoff: Payoff) -> str:
    return assessment.meaning(payoff, _unit_of_costs(options))


def _unit_of_costs(options: argparse.Namespace) -> str:
    return "" if named_prices(options) is None else "$"


def _exit_code_of(options: argparse.Namespace, assessment: Assessment) -> int:
    if options.must_pay and not assessment.pays:
        return NOT_SHOWN_TO_PAY
    return 0


def _data_and_payoff(logged: LoggedTasks, payoff: Payoff) -> dict[str, Any]:
    """The tasks and the payoff, as every JSON document has them."""
    tasks = {
        "tasks": len(logged),
        "groups": len(set(logged.groups.tolist())),
        "most_candidates": logged.rankings.width,
        "mean_required": float(logged.n_required.mean()),
        "need_no_tool": float((logged.n_required == 0).mean()),
        "lists_that_lack_a_required_tool": float((logged.missing > 0).mean()),
    }
    return {"data": tasks, "payoff": asdict(payoff)}


def _data_and_payoff_in_words(logged: LoggedTasks, payoff: Payoff) -> str:
    data = _data_and_payoff(logged, payoff)["data"]
    earned = f"Payoff: {payoff.value} value minus {payoff.cost_pressure:g} times cost"
    if payoff.recourse:
        earned += f", with {payoff.recourse:g} left for each tool missed"
    needing = f"{data['mean_required']:.2f} tools required on average"
    if data["need_no_tool"]:
        needing += f", none in {data['need_no_tool']:.0%}"
    return (
        f"{data['tasks']} tasks, {data['groups']} groups, up to {data['most_candidates']} candidates, {needing}; "
        f"{data['lists_that_lack_a_required_tool']:.0%} of lists lack a required tool.\n"
        f"{earned}.\n"
    )
