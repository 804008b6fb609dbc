"""Which skills a prompt needs, what is wrong with a library, and trigger tests as labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from camdf import DataError, Payoff, UsageError
from camdf.cli import main
from camdf.datasets.examples import Example, write_examples
from camdf.datasets.triggers import is_triggers, needed_by_query, read_triggers
from camdf.evaluation.confusions import confusions
from camdf.examples.text_logs import is_text_log, rank_log, read_text_log
from camdf.integrations.skills import NeededSkills, Skill, needed_skills, skills_in
from camdf.integrations.skills.needed import MOST, ORDINARY
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.scorers import BM25, Start
from camdf.tools import keyed

LIBRARY = Path(__file__).parents[2] / "data" / "skills" / "library"
SKILLS = skills_in(LIBRARY).skills


# What a prompt needs.


def names(skills: tuple[Skill, ...]) -> list[str]:
    return [skill.name for skill in skills]


def test_a_prompt_gets_at_most_three_skills_the_best_first() -> None:
    needed = NeededSkills(SKILLS, seconds=None)
    got = needed("Write a Kubernetes manifest with a readiness check")
    assert names(got)[0] == "k8s-manifests"
    assert len(got) <= MOST
    assert all(skill in SKILLS for skill in got)
    assert names(NeededSkills(SKILLS, most=1, seconds=None)("Rebase conflicts in scheduler.py")) == ["merge-conflicts"]


def test_what_needs_no_skill_gets_none() -> None:
    needed = NeededSkills(SKILLS, seconds=None)
    for prompt in ("", "hi", "Thank you!", *ORDINARY.read_text(encoding="utf-8").splitlines()[:5]):
        assert needed(prompt) == (), prompt
    assert NeededSkills([])("Fill in the form") == ()


def test_examples_lead_to_a_skill_and_away_from_all() -> None:
    prompt = "Grüß die Nachbarn im Treppenhaus"
    assert needed_skills(prompt, SKILLS) == ()
    leads = [Example("Grüß die Nachbarn", ("newsletter",)), Example("Wie spät ist es?")]
    assert names(needed_skills(prompt, SKILLS, examples=leads))[:1] == ["newsletter"]
    away = [Example("Fill in the fields of a PDF form and check the result")]
    assert needed_skills("Fill in the fields of a PDF form and check the result.", SKILLS, examples=away) == ()


def test_skills_for_the_user_alone_are_never_named() -> None:
    hidden = [Skill("pdf-forms", "Fill in the fields of a PDF form.", on_request=True), *SKILLS[1:3]]
    assert "pdf-forms" not in names(needed_skills("Fill in the fields of a PDF form", hidden))


def test_a_policy_that_was_fitted_decides() -> None:
    few = SKILLS[:6]
    logged = rank_log(read_text_log(_log(few), keyed(few)), keyed(few), BM25(), {"scorer": "bm25"}).logged
    policy = ExpectedPayoffBySet(prior="similarity").fit(logged, Payoff(0.05))
    policy.payoff_ = Payoff(0.05)  # type: ignore[attr-defined]
    got = NeededSkills(few, policy=policy, most=2, seconds=None)("Check a page against WCAG for barriers")
    assert len(got) <= 2
    assert all(skill in few for skill in got)
    with pytest.raises(UsageError):
        NeededSkills(few, most=0)


def _log(skills: tuple[Skill, ...]) -> Path:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "log.jsonl"
    write_examples(path, [Example(skill.description, (skill.name,)) for skill in skills])
    return path


# Trigger tests.


@pytest.fixture
def triggers(tmp_path: Path) -> Path:
    """Trigger tests in the shapes that people have them: by folder, by file name, by field."""
    both = {"query": "commit message, changelog too", "should_trigger": True}
    by_folder = tmp_path / "commit-message" / "evals" / "trigger-eval.json"
    by_folder.parent.mkdir(parents=True)
    by_folder.write_text(json.dumps([both, {"query": "what is 2 + 2", "should_trigger": False}]))
    other = {"prompt": "review this branch", "should_trigger": False}
    (tmp_path / "changelog-entry.triggers.json").write_text(json.dumps({"evals": [both, other]}))
    by_field = {"skill_name": "code-review", "evals": [{**other, "should_trigger": True}]}
    (tmp_path / "x.json").write_text(json.dumps(by_field))
    (tmp_path / "package.json").write_text('{"name": "no trigger test"}')
    return tmp_path


def test_trigger_tests_are_labels(triggers: Path) -> None:
    assert is_triggers(triggers)
    assert is_text_log(triggers)
    needed = needed_by_query(read_triggers(triggers, keyed(SKILLS)))
    assert needed == {
        "commit message, changelog too": ["changelog-entry", "commit-message"],
        "review this branch": ["code-review"],
        "what is 2 + 2": [],
    }
    log = read_text_log(triggers, keyed(SKILLS))
    assert {request.text: set(request.required) for request in log.requests} == {
        query: set(skills) for query, skills in needed.items()
    }


@pytest.mark.parametrize(
    "broken",
    ["[1]", '[{"should_trigger": true}]', '[{"query": "x", "should_trigger": "yes"}]', '{"should_trigger" x', "null"],
)
def test_a_broken_trigger_test_is_named(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "code-review.json"
    path.write_text(f"{broken}{'' if 'should_trigger' in broken else ' '}")
    if not is_triggers(path):
        return
    with pytest.raises(DataError, match=r"code-review\.json"):
        read_triggers(path, keyed(SKILLS))


def test_a_trigger_test_without_a_skill_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('[{"query": "x", "should_trigger": true}]')
    with pytest.raises(DataError, match="skill"):
        read_triggers(path, keyed(SKILLS))


def test_confusions_add_up() -> None:
    needed = [["a"], ["a", "b"], ["b"], []]
    chosen = [["b"], ["a"], [], ["c", "a"]]
    by_name = {one.name: one for one in confusions(needed, chosen)}
    assert (by_name["a"].needed, by_name["a"].chosen, by_name["a"].in_vain) == (2, 1, 1)
    assert by_name["a"].instead == {"b": 1}
    assert by_name["b"].instead == {"": 2}
    assert (by_name["c"].needed, by_name["c"].in_vain) == (0, 1)
    assert sum(one.needed for one in by_name.values()) == sum(map(len, needed))


# The commands.


def test_the_command_lists_names_and_checks(capsys: pytest.CaptureFixture[str], triggers: Path) -> None:
    folder = ["--folder", str(LIBRARY), "--json"]
    assert main(["skills", *folder]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed["skills"]) == len(SKILLS)
    assert listed["tokens"] == sum(skill.tokens for skill in SKILLS)
    assert main(["skills", "fill in the fields of this PDF form", *folder]) == 0
    assert json.loads(capsys.readouterr().out)["needed"][0]["name"] == "pdf-forms"
    assert main(["skills", "lint", *folder, "--examples", str(triggers)]) in (0, 1)
    lint = json.loads(capsys.readouterr().out)
    assert lint["tokens"] == listed["tokens"]
    assert {one["name"] for one in lint["confused"]} >= {"code-review", "commit-message"}


def test_lint_finds_what_leads_astray_is_too_long_or_no_yaml(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = {
        "bread": ("Bake a loaf of sourdough bread.", "Knead flour and water, let the dough rise, bake it."),
        "garden": ("Plant tomatoes in the garden.", "Sow tomato seeds indoors, then plant them in beds."),
        "bikes": ("Repair a flat bicycle tire.", "Take the wheel off, patch the tube, pump the tire."),
        "lost": ("Bake bread, plant tomatoes, repair a tire.", "Sort the coins of the collection by country."),
        "long": ("Tidy the attic " * 100, "Tidy the attic, box by box."),
        "colon": ("Sort: the post.", "Sort the post by address."),
    }
    for name, (description, body) in told.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    assert main(["skills", "lint", "--folder", str(tmp_path), "--json"]) == 1
    lint = json.loads(capsys.readouterr().out)
    assert [pair["skill"] for pair in lint["astray"]] == ["lost"]
    assert [Path(path).parent.name for path in lint["too_long"]] == ["long"]
    assert [Path(path).parent.name for path in lint["not_strict"]] == ["colon"]


def test_a_folder_of_skills_is_a_list_of_tools_and_trigger_tests_are_its_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = [skill for skill in SKILLS if skill.name in ("pdf-forms", "code-review", "slow-query", "newsletter")]
    for skill in few:
        rows = [{"query": f"{skill.description} {number}", "should_trigger": True} for number in range(6)]
        rows += [{"query": f"what is {skill.name} times {number}", "should_trigger": False} for number in range(3)]
        (tmp_path / f"{skill.name}.json").write_text(json.dumps(rows))
    policy = tmp_path / "policy.json"
    tools = ["--tools", str(LIBRARY), "--scorer", "bm25"]
    fit = ["fit", str(tmp_path), *tools, "-o", str(policy), "--cost-pressure", "0.05", "--splits", "2"]
    assert main(fit) == 0
    capsys.readouterr()
    assert main(["evaluate", str(policy), str(tmp_path), *tools, "--splits", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out[0:])
    assert {one["name"] for one in told["triggers"]} >= {skill.name for skill in few}
    assert all(one["chosen"] <= one["needed"] for one in told["triggers"])


def test_start_reads_a_skill_as_any_tool() -> None:
    scores = Start()("passport", SKILLS)
    assert len(scores) == len(SKILLS)
