"""What a release says of itself: its version, its changelog, every name that changed, the Pythons that run it."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import camdf
from camdf.gate.gate import EARLIER
from camdf.policies.registry import ALIASES
from camdf_lab import _version as lab_version

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NAMES = (ROOT / "tests" / "data" / "names-0.1.txt").read_text(encoding="utf-8").split()
"""The modules and the public names of 0.1."""

RELEASE, UPGRADING = re.split(r"^### Upgrading from 0\.1\n", re.split(r"^## ", CHANGELOG, flags=re.M)[1], flags=re.M)
ROWS = [line.strip("| ").split(" | ") for line in re.findall(r"^\| `.*$", UPGRADING, flags=re.M)]
BEFORE, NOW = (" ".join(row[column] for row in ROWS) for column in (0, 1))


def projects() -> list[dict[str, object]]:
    return [tomllib.loads((ROOT / name / "pyproject.toml").read_text("utf-8"))["project"] for name in (".", "lab")]


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or what a module has; modules that need a framework are only looked for."""
    place, _, last = name.rpartition(".")
    try:
        return find_spec(name) is not None or hasattr(import_module(place), last)
    except ModuleNotFoundError:  # what is above it is no package, or is gone
        return bool(place) and is_there(place) and hasattr(import_module(place), last)


def test_the_changelog_begins_with_the_version_of_both_distributions() -> None:
    heading = re.match(r"(\S+) \((\d{4}-\d{2}-\d{2})\)\n", RELEASE)
    assert heading is not None
    assert heading[1] == camdf.__version__ == lab_version.__version__
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["version"], str(cited["date-released"])) == heading.groups()


def test_the_changelog_is_by_what_a_user_notices_one_line_each() -> None:
    assert re.findall(r"^### (.+)$", RELEASE, flags=re.M) == ["New", "Better", "Changed", "Fixed"]
    _, *groups = re.split(r"^### .+\n", RELEASE, flags=re.M)
    for line in (line for group in groups for line in group.splitlines() if line):
        assert line.startswith("- ") or line.endswith(":"), line
        assert len(line) <= 125, line


def test_the_notes_on_upgrading_have_every_name_of_the_last_release_that_is_gone() -> None:
    named = re.findall(r"`(camdf(?:\.\w+)+)", BEFORE)
    gone = [name for name in NAMES if not (is_there(name) or name.removeprefix("camdf.") in camdf.__all__)]
    assert len(gone) > 50
    assert [name for name in gone if not any(f"{name}.".startswith(f"{old}.") for old in named)] == []


def test_the_notes_on_upgrading_have_every_old_name_that_still_works() -> None:
    for old, new in ALIASES.items():
        assert [f"`{old}`", f"`{new}`"] in ROWS
    assert [name for name in EARLIER if f"{name}=" not in BEFORE] == []


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`(camdf(?:_lab)?(?:\.\w+)+)`", NOW)) - {"camdf.id", "camdf.priced_cost"})
)
def test_what_a_name_became_is_there(name: str) -> None:
    assert is_there(name)


def test_the_classifiers_name_the_pythons_that_are_run_and_no_others() -> None:
    workflows = [yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    run = {str(version) for flow in workflows for job in flow["jobs"].values() for version in pythons(job)}
    for project in projects():
        told = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]  # type: ignore[attr-defined]
        assert told == sorted(run)
        assert project["requires-python"] == f">={told[0]}"


def pythons(job: dict[str, dict[str, dict[str, list[str]]]]) -> list[str]:
    """The versions of Python that a job of a workflow is run on."""
    return job.get("strategy", {}).get("matrix", {}).get("python", [])


def test_the_issue_forms_ask_for_what_they_need() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir())
    assert [path.name for path in forms] == ["bug.yml", "idea.yml"]
    for form in (yaml.safe_load(path.read_text("utf-8")) for path in forms):
        assert form.keys() == {"name", "description", "labels", "body"}
        names = [part["id"] for part in form["body"]]
        assert len(set(names)) == len(names)
        assert all(part["attributes"]["label"] for part in form["body"])
