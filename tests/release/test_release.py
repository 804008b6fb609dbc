"""What a release says of itself: its version, its changelog, the Pythons that run it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import camdf
from camdf_lab import _version as lab_version
from camdf_traces import _version as traces_version

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASE = re.split(r"^## ", CHANGELOG, flags=re.M)[1]


def projects() -> list[dict[str, object]]:
    folders = (".", "traces", "lab")
    return [tomllib.loads((ROOT / name / "pyproject.toml").read_text("utf-8"))["project"] for name in folders]


def test_the_changelog_begins_with_the_version_of_all_distributions() -> None:
    heading = re.match(r"(\S+) \((\d{4}-\d{2}-\d{2})\)\n", RELEASE)
    assert heading is not None
    assert heading[1] == camdf.__version__ == traces_version.__version__ == lab_version.__version__
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["version"], str(cited["date-released"])) == heading.groups()


def test_the_changelog_is_by_what_a_user_notices_one_line_each() -> None:
    assert re.findall(r"^### (.+)$", RELEASE, flags=re.M) == ["New", "Better", "Changed", "Fixed"]
    _, *groups = re.split(r"^### .+\n", RELEASE, flags=re.M)
    for line in (line for group in groups for line in group.splitlines() if line):
        assert line.startswith("- ") or line.endswith(":"), line
        assert len(line) <= 125, line


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
