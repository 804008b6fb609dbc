"""Skills in clients' folders: what is found, which of two counts, and that a broken file costs itself alone."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from camdf import DataError
from camdf.integrations.skills import SkillFolder, installed_skills, read_skills, skills_in
from camdf.integrations.skills.folders import DEPTH, LARGEST_FILE
from camdf.integrations.skills.front_matter import parse_skill_text
from camdf.tools import view


def put(folder: Path, name: str, description: str = "Does a thing.", body: str = "Do it.", more: str = "") -> Path:
    """A skill in a folder of its own."""
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n", encoding="utf-8")
    return path


# Front matter.

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1).map(str.strip)


@given(WORDS.filter(bool), st.sampled_from([None, '"', "'", ">", "|"]), st.integers(20, 200))
def test_what_yaml_writes_is_read_as_yaml_reads_it(text: str, style: str, width: int) -> None:
    written = yaml.dump(
        {"name": "x", "description": text}, default_style=style, width=width, allow_unicode=True, sort_keys=False
    )
    read = yaml.safe_load(written)["description"]
    ours = parse_skill_text(f"---\n{written}---\nbody").fields["description"]
    assert " ".join(ours.split()) == " ".join(str(read).split())


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n"):
        with suppress(DataError):
            parse_skill_text(whole)


def test_lists_and_tables_are_left_out_and_colons_are_read_as_meant() -> None:
    text = parse_skill_text(
        "---\nname: pdf  # its name\ndescription: Use: on forms\nallowed-tools:\n  - Read\n"
        "metadata:\n  owner: me\ntags: [a, b]\nlicense: MIT\n---\nbody"
    )
    assert text.fields == {"name": "pdf", "description": "Use: on forms", "license": "MIT"}
    assert not text.strict
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load("description: Use: on forms")


# Places.


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A user with skills of every kind, and a project inside of a repository."""
    claude = tmp_path / "home" / ".claude"
    codex = tmp_path / "home" / ".codex"
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "app").mkdir()
    put(claude / "skills", "notes", "Of the user.")
    put(work / ".claude" / "skills", "notes", "Of the project.")
    put(work / ".claude" / "skills", "deploy")
    put(tmp_path / ".claude" / "skills", "above-the-repository")
    plugins = {}
    for plugin in ("pdf", "off", "elsewhere"):
        root = claude / "plugins" / "cache" / "market" / plugin / "1.0.0"
        put(root / "skills", "merge", f"Of {plugin}.")
        plugins[f"{plugin}@market"] = [{"scope": "user", "installPath": str(root)}]
    plugins["elsewhere@market"][0]["projectPath"] = str(tmp_path / "other")
    put(claude / "plugins" / "cache" / "market" / "pdf" / "1.0.0" / "more", "split")
    manifest = claude / "plugins" / "cache" / "market" / "pdf" / "1.0.0" / ".claude-plugin" / "plugin.json"
    manifest.parent.mkdir()
    manifest.write_text(json.dumps({"name": "pdf", "skills": ["./more", "../../../../../skills"]}))
    put(claude / "plugins" / "marketplaces" / "market" / "not-installed" / "skills", "never")
    (claude / "plugins" / "installed_plugins.json").write_text(json.dumps({"version": 2, "plugins": plugins}))
    (claude / "settings.json").write_text(json.dumps({"enabledPlugins": {"off@market": False}}))
    put(codex / "skills", "notes", "Of the user.")
    put(codex / "skills" / ".system", "skill-installer")
    put(tmp_path / "home" / ".agents" / "skills", "shared")
    put(work / ".agents" / "skills" / "deep" / "er", "plan")
    put(work / ".codex" / "skills", "old-place")
    for number, version in enumerate(("0.1.0", "0.2.0")):
        root = codex / "plugins" / "cache" / "market" / "chart" / version
        put(root / "skills", "draw", f"Version {version}.")
        os.utime(root, (number, number))
    put(codex / "plugins" / "cache" / "market" / "unlisted" / "1.0.0" / "skills", "never")
    (codex / "config.toml").write_text(
        '[plugins."chart@market"]\nenabled = true\n[plugins."../..@x"]\nenabled = true\n'
    )
    return {"HOME": str(tmp_path / "home")}


def test_claude_code_has_skills_of_the_user_the_project_and_enabled_plugins(
    home: dict[str, str], tmp_path: Path
) -> None:
    there = installed_skills(["claude-code"], tmp_path / "work" / "app", home)
    assert not there.problems
    assert {(skill.label, skill.origin, skill.description) for skill in there.skills} == {
        ("notes", "user", "Of the user."),
        ("deploy", "project", "Does a thing."),
        ("pdf:merge", "plugin", "Of pdf."),
        ("pdf:split", "plugin", "Does a thing."),
    }


def test_codex_has_those_of_the_repository_the_user_plugins_and_its_own(home: dict[str, str], tmp_path: Path) -> None:
    there = installed_skills(["codex"], tmp_path / "work" / "app", home)
    assert {(skill.label, skill.origin) for skill in there.skills} == {
        ("notes", "user"),
        ("shared", "user"),
        ("plan", "project"),
        ("old-place", "project"),
        ("chart:draw", "plugin"),
        ("skill-installer", "system"),
    }
    [draw] = [skill for skill in there.skills if skill.name == "draw"]
    assert draw.description == "Version 0.2.0."
    assert draw.path in draw.listing


def test_a_broken_file_costs_itself_alone(tmp_path: Path) -> None:
    put(tmp_path, "whole")
    broken = {
        "no-front-matter": b"# Title\n",
        "never-closed": b"---\nname: x\ndescription: y\n",
        "latin": "---\nname: x\ndescription: Gr\u00f6\u00dfe\n---\n".encode("latin-1"),
        "large": b"---\nname: x\ndescription: y\n---\n" + b"x" * LARGEST_FILE,
        "silent": b"---\nname: x\n---\n# Only a title\n",
    }
    for name, content in broken.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_bytes(content)
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "SKILL.md").symlink_to(tmp_path / "nowhere")
    there = skills_in(tmp_path)
    assert [skill.name for skill in there.skills] == ["whole"]
    wrong = {Path(path).parent.name for path in there.problems}
    assert wrong == {*broken, "folder", "pipe", "dangling"}


def test_links_are_followed_once_and_circles_end(tmp_path: Path) -> None:
    place = tmp_path / "skills"
    put(tmp_path / "elsewhere", "linked")
    put(place, "own")
    (place / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    (place / "again").symlink_to(tmp_path / "elsewhere" / "linked")
    (place / "own" / "circle").symlink_to(place)
    (place / "itself").symlink_to(place / "itself")
    assert sorted(skill.name for skill in skills_in(place).skills) == ["linked", "own"]


def test_what_lies_too_deep_or_hidden_is_not_read(tmp_path: Path) -> None:
    put(tmp_path.joinpath(*"abcde"), "reached")
    put(tmp_path.joinpath(*"abcdef"), "too-deep")
    put(tmp_path / ".git", "hidden")
    assert [skill.name for skill in skills_in(tmp_path).skills] == ["reached"]
    assert DEPTH == 6


def test_without_a_description_the_first_paragraph_says_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "SKILL.md").write_text("---\nname: plain\n---\n# Plain\n\nMakes text\nplain.\n\nMore.\n")
    assert skills_in(tmp_path).skills[0].description == "Makes text plain."


# A skill is a tool.


def test_a_skill_is_ranked_by_its_body_and_costs_its_line(tmp_path: Path) -> None:
    put(tmp_path, "forms", "Fills forms.", "Ask for the passport number first.", "when_to_use: On paperwork.\n")
    put(tmp_path, "asked-for", more="disable-model-invocation: true\n")
    asked_for, forms = skills_in(tmp_path).skills
    assert view(forms) is forms
    assert "passport" in forms.text
    assert "passport" not in forms.listing
    assert forms.description == "Fills forms. On paperwork."
    assert forms.tokens == round(len(forms.definition()) / 4)
    assert asked_for.on_request
    assert asked_for.tokens == 0
    changed = put(tmp_path, "forms", "Fills forms.", "Ask for the visa first.", "when_to_use: On paperwork.\n")
    again = read_skills([SkillFolder(changed.parent)]).skills[0]
    assert again.definition() == forms.definition()
    assert again.digest() != forms.digest()
