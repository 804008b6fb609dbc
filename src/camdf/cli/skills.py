"""`camdf skills`: the skills of coding agents, what they cost a session, and which of them a prompt needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from camdf.cli.parser import add_json, notes_stream, print_json
from camdf.cli.tools import problem_lines
from camdf.datasets.examples import Example, read_examples
from camdf.datasets.triggers import is_triggers, needed_by_query, read_triggers
from camdf.errors import UsageError
from camdf.evaluation.confusions import lines_of_confusions
from camdf.integrations.skills.folders import CLIENTS, SkillFolder, SkillList, installed_skills, read_skills
from camdf.integrations.skills.linting import BUDGET, Lint, lint_skills
from camdf.integrations.skills.needed import NeededSkills
from camdf.integrations.skills.skill import Skill
from camdf.policies.artifact import load
from camdf.runtime.visible import visible

LINT = "lint"
NOT_CLEAN = 1
LISTED = 8
"""How many lines of a kind are printed; --json has all."""


def add_commands(commands: Any) -> None:
    """skills."""
    parser = commands.add(_skills, codes={NOT_CLEAN: "lint: something is to be mended"})
    parser.add_argument(
        "prompt", nargs="?", help=f"what a user asks, in quotes: name the skills that it needs; or {LINT}: check them"
    )
    parser.add_argument("--client", choices=CLIENTS, action="append", help="whose skills (default: all clients')")
    parser.add_argument("--project", type=Path, metavar="FOLDER", help="where a client is started (default: here)")
    parser.add_argument(
        "--folder", type=Path, action="append", metavar="FOLDER", help="skills below this folder instead of clients'"
    )
    parser.add_argument(
        "--examples", type=Path, help="what people ask them for: examples (.jsonl), or should_trigger files (.json)"
    )
    parser.add_argument("--policy", type=Path, help="a policy that camdf fit wrote, which decides (.json)")
    add_json(parser)


def _skills(options: argparse.Namespace) -> int:
    """Say what skills of coding agents cost, and which a prompt needs.

    camdf skills 'Fill in this form with my address'
    """
    there = _skills_there(options)
    notes = notes_stream(options)
    for problem in problem_lines(there):
        print(problem, file=notes)
    if options.prompt is None:
        return _list_skills(options, there)
    if not there.skills:
        raise UsageError("There is no skill. Name a folder with some: --folder FOLDER")
    examples = _read_skill_examples(options, there.skills)
    if options.prompt == LINT:
        return _lint(options, lint_skills(there, examples))
    policy = None if options.policy is None else load(options.policy)
    needed = NeededSkills(there.skills, examples=examples or None, policy=policy, seconds=None)(options.prompt)
    if options.json:
        print_json({"needed": list(map(_skill_as_record, needed))})
        return 0
    if not needed:
        print("No skill is needed.")
    for skill in needed:
        print(f"{visible(skill.label)}: {visible(skill.description)}\n  {visible(skill.path)}")
    return 0


def _skills_there(options: argparse.Namespace) -> SkillList:
    if options.folder:
        return read_skills(map(SkillFolder, options.folder))
    return installed_skills(options.client or CLIENTS, options.project)


def _read_skill_examples(options: argparse.Namespace, skills: Sequence[Skill]) -> list[Example]:
    """What people ask the skills for, in either shape."""
    if options.examples is None:
        return []
    if not is_triggers(options.examples):
        return read_examples(options.examples)
    names = {name for skill in skills for name in (skill.name, skill.full_name)}
    needed = needed_by_query(read_triggers(options.examples, names))
    return [Example(query, tuple(wanted), origin="own") for query, wanted in needed.items()]


def _skill_as_record(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.label,
        "description": skill.description,
        "path": skill.path,
        "tokens": skill.tokens,
        "origin": skill.origin,
        "client": skill.client,
    }


def _list_skills(options: argparse.Namespace, there: SkillList) -> int:
    total = sum(skill.tokens for skill in there.skills)
    if options.json:
        print_json({"tokens": total, "skills": list(map(_skill_as_record, there.skills)), "unread": there.problems})
        return 0
    skills = "1 skill" if len(there.skills) == 1 else f"{len(there.skills):,} skills"
    print(f"{skills}, about {total:,} tokens in every call of a session.")
    costly = sorted(there.skills, key=lambda skill: -skill.tokens)
    width = max((len(visible(skill.label)) for skill in costly), default=0)
    for skill in costly:
        where = " ".join(filter(None, (skill.client, skill.origin)))
        print(f"{skill.tokens:>6}  {visible(skill.label):<{width}}  {where}".rstrip())
    return 0


def _lint(options: argparse.Namespace, lint: Lint) -> int:
    code = 0 if lint.clean else NOT_CLEAN
    if options.json:
        told = {**vars(lint), "astray": [pair._asdict() for pair in lint.astray], "clean": lint.clean}
        told["check"] = lint.check and lint.check.as_record()
        told["confused"] = [asdict(one) for one in lint.confused]
        print_json(told)
        return code
    print(f"The list costs about {lint.tokens:,} tokens in every call, and has {lint.characters:,} characters.")
    if lint.characters > BUDGET:
        print(f"Codex and Claude Code keep about {BUDGET:,}: they shorten descriptions, or leave them out.")
    near = lint.check.near_duplicates if lint.check else ()
    missed: Sequence[Example] = ()
    if lint.check is not None:
        missed = lint.check.missed
    findings = {
        "Descriptions that lead to another skill's body": [f"{skill}  {other}" for skill, other in lint.astray],
        "Near-duplicates: how often requests for the first skill rank the second one first": [
            f"{own}  {other}  {count} of {total}" for own, other, count, total in near
        ],
        "Requests that no ranking finds": [f"{', '.join(example.right)}: {example.text}" for example in missed],
        "Chosen without any example, of those that were needed": lines_of_confusions(lint.confused),
        "Descriptions too long for Codex": list(lint.too_long),
        "Front matter that is no strict YAML, which Codex leaves out: put the text between quotes": list(
            lint.not_strict
        ),
    }
    for title, lines in findings.items():
        if lines:
            print(f"\n{title}: {len(lines)}")
            print("\n".join(f"  {visible(line)}" for line in lines[:LISTED]))
        if len(lines) > LISTED:
            print(f"  and {len(lines) - LISTED} more; --json has all")
    return code
