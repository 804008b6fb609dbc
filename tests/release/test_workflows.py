"""What runs on GitHub is what was read: pinned by commit and by hash, with no right that a job does not need."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.name: yaml.safe_load(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.y*ml"))
}
TRIGGERS = True
"""The key 'on', which YAML takes for true."""

WRITES = {
    "pages.yml: deploy": {"pages", "id-token"},
    "release.yml: publish": {"contents", "id-token", "attestations"},
}
"""The jobs that may write, and what."""

RELEASE = WORKFLOWS["release.yml"]["jobs"]


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for file, workflow in WORKFLOWS.items():
        for name, job in workflow["jobs"].items():
            yield f"{file}: {name}", job


def steps(job: dict[str, Any], key: str) -> list[Any]:
    """What the steps of a job use or run, in their order."""
    return [step[key] for step in job.get("steps", []) if key in step]


def used() -> list[str]:
    """Every line that uses an action or another workflow."""
    lines = (line.strip() for path in FOLDER.iterdir() for line in path.read_text("utf-8").splitlines())
    return [line.removeprefix("- ") for line in lines if re.match(r"(- )?uses:", line)]


def test_every_action_is_pinned_by_a_whole_commit_that_names_its_tag_and_by_one_everywhere() -> None:
    pinned = r"uses: (?P<action>[\w.-]+/[\w./-]+)@(?P<commit>[0-9a-f]{40}) # (?P<tag>v\d+\.\d+\.\d+)"
    found = [(line, re.fullmatch(pinned, line)) for line in used()]
    assert len(found) > 10
    assert [line for line, pin in found if pin is None] == ["uses: ./.github/workflows/ci.yml"]
    pins = {(pin["action"], pin["commit"], pin["tag"]) for _, pin in found if pin is not None}
    assert len(pins) == len({action for action, _, _ in pins})
    there = {use.partition("@")[0] for _, job in jobs() for use in [*steps(job, "uses"), job.get("uses", "")] if use}
    assert there == {action for action, _, _ in pins} | {"./.github/workflows/ci.yml"}, "none is written otherwise"


def test_a_job_may_read_and_only_those_that_publish_may_write() -> None:
    assert [workflow["permissions"] for workflow in WORKFLOWS.values()] == [{"contents": "read"}] * len(WORKFLOWS)
    own = {name: job["permissions"] for name, job in jobs() if "permissions" in job}
    assert own == {name: dict.fromkeys(rights, "write") for name, rights in WRITES.items()}


def test_no_job_keeps_a_token_where_its_steps_could_read_it_or_runs_what_others_wrote() -> None:
    for name, job in jobs():
        for step in job.get("steps", []):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name
            told = re.findall(r"\$\{\{\s*([\w.-]+)", step.get("run", ""))
            assert [word for word in told if not word.startswith("matrix.")] == [], name
    assert {trigger for workflow in WORKFLOWS.values() for trigger in workflow[TRIGGERS]} <= {
        *("push", "pull_request", "schedule", "workflow_call", "workflow_dispatch")
    }


def test_a_release_waits_for_ci_on_its_own_commit_and_attests_every_file_before_it_is_there() -> None:
    assert RELEASE["ci"] == {"uses": "./.github/workflows/ci.yml"}
    assert "workflow_call" in WORKFLOWS["ci.yml"][TRIGGERS]
    publish = RELEASE["publish"]
    assert set(publish["needs"]) == {"ci", "build"}
    download, attest, create = publish["steps"]
    assert download["uses"].startswith("actions/download-artifact@")
    assert attest["uses"].startswith("actions/attest-build-provenance@")
    assert attest["with"]["subject-path"] in shlex.split(create["run"]), "what is attested is what is published"
    assert "--verify-tag" in shlex.split(create["run"])


def test_a_job_that_may_write_runs_nothing_of_the_repository_and_installs_nothing() -> None:
    commands = list[list[str]]()
    for job in (job for name, job in jobs() if name in WRITES):
        assert not any(use.startswith(("actions/checkout@", "actions/setup-")) for use in steps(job, "uses"))
        commands += [shlex.split(command)[:3] for command in steps(job, "run")]
    assert commands == [["gh", "release", "create"]]


def test_the_pages_that_are_published_are_those_that_were_built_of_every_tag() -> None:
    build, deploy = WORKFLOWS["pages.yml"]["jobs"].values()
    checkout, *_, upload = (step for step in build["steps"] if "uses" in step)
    assert checkout["with"]["fetch-depth"] == 0, "with all tags"
    assert upload["uses"].startswith("actions/upload-pages-artifact@")
    assert f"python .ci/site_versions.py {upload['with']['path']}" in steps(build, "run")
    assert deploy["needs"] == "build"
    assert [use.partition("@")[0] for use in steps(deploy, "uses")] == ["actions/deploy-pages"]


@pytest.mark.parametrize(("file", "job"), [("release.yml", "build"), ("audit.yml", "audit"), ("pages.yml", "build")])
def test_what_builds_and_audits_a_release_is_installed_by_hash(file: str, job: str) -> None:
    commands = [shlex.split(command) for command in steps(WORKFLOWS[file]["jobs"][job], "run")]
    (install,) = [command for command in commands if command[:2] == ["pip", "install"]]
    assert install[2:4] == ["--require-hashes", "-r"]
    lock = ROOT / install[4]
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock.read_text("utf-8"), flags=re.M).strip())
    for entry in entries:
        assert re.match(r"[\w.-]+==[^\s;]+", entry), entry
        assert "--hash=sha256:" in entry
    locked = {entry.partition("==")[0] for entry in entries}
    named = re.findall(r"^[\w-]+", lock.with_suffix(".in").read_text("utf-8"), flags=re.M)
    assert {*named} <= locked
    assert lock.name in lock.read_text("utf-8"), "how it is made anew"


def test_whatever_is_pinned_is_kept_up_by_pull_requests() -> None:
    kept = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    assert kept["version"] == 2
    places = {
        (update["package-ecosystem"], folder)
        for update in kept["updates"]
        for folder in update.get("directories", [update.get("directory")])
    }
    locks = [path for path in ROOT.glob("*/*requirements.txt") if "--hash=" in path.read_text("utf-8")]
    packages = [*ROOT.glob("*/package-lock.json"), *ROOT.glob("*/*/package-lock.json")]
    assert locks
    assert packages
    assert places == {
        ("github-actions", "/"),
        *(("pip", f"/{path.parent.relative_to(ROOT).as_posix()}") for path in locks),
        *(("npm", f"/{path.parent.relative_to(ROOT).as_posix()}") for path in packages),
    }
    assert all(update["schedule"]["interval"] == "weekly" for update in kept["updates"])
