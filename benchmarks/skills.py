"""Which skills does a prompt need, and does one that needs nothing get nothing? Ways to choose, side by side.

python benchmarks/skills.py                    the table
python benchmarks/skills.py --json FILE        the same rows as JSON
python benchmarks/skills.py --check FILE       exit 1 where they are not what the file has

Needs the extra start. Of tests/data/skills: 80 skills, 240 prompts in three languages of which half need none, and
forty long ones that need none. A way names at most three skills a prompt. Precision is the share of named skills that
are needed, recall the share of needed ones that are named, and the none-rates are the shares of short and of long
prompts that need nothing and get nothing. The most used skills are those of these very prompts, which flatters the
clients' rule. With 38 labels, half of which need nothing, the prompts that gave them are left out.

The first figures that were looked at were those of constants, of the default policy, and of ordinary requests as one
candidate, as several and as one each, on these very prompts; the way that is shipped was chosen by them, and its own
requests (`ordinary.txt`) were written before its figures. The long prompts were added after it was seen that the
others that need nothing are shorter than those that need something, and before any figure of theirs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stored import Rows, measure_and_compare

from camdf import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.datasets.examples import Example, read_examples
from camdf.datasets.gather import Gathered
from camdf.evaluation.replay import all_handed_over
from camdf.integrations.skills import NeededSkills, skills_in
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.pressure import pressure_for_tools
from camdf.scorers import BM25, Start
from camdf.scorers.base import Scorer

DATA = Path(__file__).parents[1] / "tests" / "data" / "skills"
AT_MOST = 3
LABELS = 38
NAMED = 1.0
"""How many skills a prompt the fitted policy should name on average, told to it as a target."""

BUDGET = 0.5
"""The part of the list of skills that a client has room for."""

NOISE = 0.012
"""By how much a share may differ from the stored one: another processor may round a cosine otherwise."""

SKILLS = skills_in(DATA / "library").skills
SHORT = read_examples(DATA / "prompts.jsonl")
LONG = read_examples(DATA / "prompts-long.jsonl")
EXAMPLES = read_examples(DATA / "examples.jsonl")
LANGUAGES = ("en", "de", "es")

Chosen = list[list[str]]


def best_three(scorer: Scorer, prompts: Sequence[Example]) -> Chosen:
    """The three that rank first, of those that score anything."""
    chosen: Chosen = []
    for prompt in prompts:
        scores = np.asarray(scorer(prompt.text, SKILLS))
        order = np.argsort(-scores, kind="stable")[:AT_MOST]
        chosen.append([SKILLS[place].name for place in order if scores[place] > 0])
    return chosen


def most_used(prompts: Sequence[Example]) -> list[str]:
    """All skills, those that most prompts need first, as clients order them when their list is too long."""
    uses = Counter(name for prompt in prompts for name in prompt.needed)
    return sorted((skill.name for skill in SKILLS), key=lambda name: (-uses[name], name))


def within_budget(names: Iterable[str]) -> list[str]:
    """The first of some skills, as long as their lines fit into the budget."""
    lines = {skill.name: len(skill.listing) for skill in SKILLS}
    room = BUDGET * sum(lines.values())
    listed: list[str] = []
    for name in names:
        room -= lines[name]
        if room < 0:
            break
        listed.append(name)
    return listed


def logged(prompts: Sequence[Example], scorer: Start) -> LoggedTasks:
    """Prompts as tasks with scores and vectors."""
    gathered = Gathered()
    for prompt in prompts:
        scores = dict(zip([skill.name for skill in SKILLS], scorer(prompt.text, SKILLS), strict=True))
        vector = scorer.embedding(prompt.text)
        assert vector is not None
        needed = list(prompt.needed)
        gathered.add(prompt.text, prompt.text, scores, needed, len(needed), None, vector.tolist())
    return gathered.logged(priced=False, keep_order=False)


def fitted(labels: Sequence[Example], prompts: Sequence[Example], scorer: Start) -> Chosen:
    """The default policy, fitted on labels and told how many it should name on average."""
    known = logged(labels, scorer)
    unit = Payoff(1.0, "partial")
    policy = ExpectedPayoffBySet(prior="similarity").fit(known, unit)
    payoff = pressure_for_tools(policy, known.rankings, "partial", tools=NAMED)
    asked = logged(prompts, scorer)
    rankings = asked.rankings
    decided = all_handed_over(rankings, policy.decide(rankings, payoff), searches=True, at_most=AT_MOST)
    names = [
        [name for name, kept in zip(rankings.names(row), decided[row], strict=False) if kept]
        for row in range(len(rankings))
    ]
    by_text = dict(zip(asked.task_ids.tolist(), names, strict=True))
    return [by_text[prompt.text] for prompt in prompts]


def row(way: str, chosen: Chosen, prompts: Sequence[Example]) -> dict[str, Any]:
    """The figures of one way."""
    pairs = list(zip(prompts, chosen, strict=True))

    def hits(language: str = "") -> tuple[int, int]:
        asked = [(set(prompt.needed), names) for prompt, names in pairs if language in ("", prompt.language)]
        return sum(len(needed & {*names}) for needed, names in asked), sum(len(needed) for needed, _ in asked)

    def none_rate(some: Sequence[Example], language: str = "") -> float:
        silent = [
            not names
            for prompt, names in pairs
            if not prompt.needed and prompt in some and language in ("", prompt.language)
        ]
        return round(float(np.mean(silent)), 4)

    found, wanted = hits()
    named = sum(map(len, chosen))
    by_language = {language: round(hits(language)[0] / hits(language)[1], 4) for language in LANGUAGES}
    return {
        "way": way,
        "prompts": len(prompts),
        "precision": round(found / max(1, named), 4),
        "recall": round(found / wanted, 4),
        "recall_by_language": by_language,
        "none_short": none_rate(SHORT),
        "none_long": none_rate(LONG),
        "none_by_language": {language: none_rate([*SHORT, *LONG], language) for language in LANGUAGES},
        "named": round(named / len(prompts), 3),
    }


def measure() -> list[dict[str, Any]]:
    """Every way on the same prompts; those with labels on the prompts that gave none."""
    prompts = [*SHORT, *LONG]
    listed = most_used(prompts)
    plain = Start()
    taught = Start(examples=EXAMPLES)
    rows = [
        row("clients: the three most used", [listed[:AT_MOST]] * len(prompts), prompts),
        row("clients: most used first, half of the list", [within_budget(listed)] * len(prompts), prompts),
        row("BM25, best three", best_three(BM25(), prompts), prompts),
        row("Start, best three", best_three(plain, prompts), prompts),
        row("Start with examples, best three", best_three(taught, prompts), prompts),
        row("camdf skills", _named(NeededSkills(SKILLS, seconds=None), prompts), prompts),
        row(
            "camdf skills with examples",
            _named(NeededSkills(SKILLS, examples=EXAMPLES, seconds=None), prompts),
            prompts,
        ),
    ]
    labels, others = _labels_and_others(prompts)
    rows += [
        row("38 labels: fitted policy", fitted(labels, others, plain), others),
        row("38 labels: fitted policy, with examples", fitted(labels, others, taught), others),
        row(
            "38 labels as examples, and those",
            _named(NeededSkills(SKILLS, examples=[*EXAMPLES, *labels], seconds=None), others),
            others,
        ),
    ]
    return rows


def _named(needed: Callable[[str], Sequence[Any]], prompts: Sequence[Example]) -> Chosen:
    return [[skill.name for skill in needed(prompt.text)] for prompt in prompts]


def _labels_and_others(prompts: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """As many prompts that need something as need nothing, drawn by a seed; and all that were not drawn."""
    rng = np.random.default_rng(0)
    needing = [place for place, prompt in enumerate(prompts) if prompt.needed]
    others = [place for place, prompt in enumerate(prompts) if not prompt.needed]
    drawn = {*rng.permutation(needing)[: LABELS // 2].tolist(), *rng.permutation(others)[: LABELS // 2].tolist()}
    labels = [prompts[place] for place in sorted(drawn)]
    return labels, [prompt for place, prompt in enumerate(prompts) if place not in drawn]


def table(rows: Rows) -> str:
    """The rows as the page has them."""
    lines = [
        "| way | precision | recall (en, de, es) | none gets none: short, long (en, de, es) | named |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in rows:
        recall = ", ".join(f"{one['recall_by_language'][language]:.2f}" for language in LANGUAGES)
        none = ", ".join(f"{one['none_by_language'][language]:.2f}" for language in LANGUAGES)
        lines.append(
            f"| {one['way']} | {one['precision']:.2f} | {one['recall']:.2f} ({recall}) "
            f"| {one['none_short']:.2f}, {one['none_long']:.2f} ({none}) | {one['named']:.1f} |"
        )
    return "\n".join(lines)


def is_same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether two rows differ by no more than rounding."""
    shares = ("precision", "recall", "none_short", "none_long")
    return before["way"] == now["way"] and all(abs(before[name] - now[name]) <= NOISE for name in shares)


if __name__ == "__main__":
    sys.exit(measure_and_compare(__doc__, measure, table, is_same))
