"""Where Claude Code and Codex have their skills, and reading them: bounded, and a broken file costs itself alone.

Looked at: Claude Code's pages of June to September 2026 (2.1.207: user, project, plugins by `installed_plugins.json`),
and Codex at c9d127c (`core-skills/src/loader.rs`: depth, number of folders, links, names).
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from camdf.errors import DataError
from camdf.integrations.skills.front_matter import SkillText, parse_skill_text
from camdf.integrations.skills.skill import Skill

FILE = "SKILL.md"
LARGEST_FILE = 1_000_000
"""Bytes. A larger file costs itself."""

FOLDERS = 2_000
"""How many folders are looked into below one place, as Codex does."""

DEPTH = 6
"""How deep below it."""

ENTRIES = 10_000
"""How many files and folders of one folder are looked at."""

MOST = 5_000
"""How many skills are read."""

Client: TypeAlias = Literal["claude-code", "codex"]
CLIENTS: tuple[Client, ...] = get_args(Client)
Origin: TypeAlias = Literal["", "user", "project", "plugin", "system"]


class SkillFolder(NamedTuple):
    """A place with skills in it."""

    path: Path
    origin: Origin = ""
    client: Client | Literal[""] = ""
    plugin: str = ""
    depth: int = DEPTH
    """How many folders deep a skill may lie: Claude Code looks into those right below."""


@dataclass(frozen=True)
class SkillList:
    """The skills of some places, and which files could not be read and why."""

    skills: tuple[Skill, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)
    """By the path of the file or folder."""

    lenient: tuple[Skill, ...] = ()
    """Skills whose front matter is no strict YAML: Codex leaves them out."""


def read_skills(folders: Iterable[SkillFolder]) -> SkillList:
    """The skills of these places, each file once.

    Of two skills with one name the first counts in Claude Code, so places come in the order in which they count.
    """
    read: dict[Path, Skill] = {}
    names: set[tuple[str, str, str]] = set()
    problems: dict[str, str] = {}
    lenient: list[Skill] = []
    for folder in folders:
        for path in _skill_files(folder, problems):
            if len(read) >= MOST:
                problems[str(folder.path)] = f"holds more than the {MOST:,} skills that are read in all"
                break
            if (place := path.resolve()) in read:
                continue
            try:
                text = parse_skill_text(_file_text(path))
                skill = _skill_of(path, text, folder)
            except (OSError, ValueError) as error:
                problems[str(path)] = _why(error)
                continue
            which = skill.client, skill.server, skill.name
            if skill.client == "claude-code" and which in names:
                continue
            names.add(which)
            read[place] = skill
            if not text.strict:
                lenient.append(skill)
    return SkillList(tuple(read.values()), problems, tuple(lenient))


def skills_in(folder: str | os.PathLike[str]) -> SkillList:
    """The skills below one folder."""
    return read_skills([SkillFolder(Path(folder))])


def installed_skills(
    clients: Iterable[Client] = CLIENTS,
    project: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> SkillList:
    """The skills that clients have for this user, in a project.

    Args:
        clients: Whose skills: "claude-code", "codex" or both.
        project: The folder in which a client is started. None takes the working folder.
        environment: HOME, CLAUDE_CONFIG_DIR and CODEX_HOME, by which clients find their own. None takes this process's.
    """
    variables = os.environ if environment is None else environment
    home = Path(variables.get("HOME") or Path.home())
    here = Path(project or Path.cwd()).resolve()
    folders: list[SkillFolder] = []
    if "claude-code" in clients:
        folders += _claude_folders(Path(variables.get("CLAUDE_CONFIG_DIR") or home / ".claude"), here)
    if "codex" in clients:
        folders += _codex_folders(Path(variables.get("CODEX_HOME") or home / ".codex"), home, here)
    return read_skills(folders)


def _claude_folders(config: Path, project: Path) -> Iterator[SkillFolder]:
    """Those of the user before those of the project, then those of plugins that are installed and enabled."""
    place = partial(SkillFolder, client="claude-code", depth=1)
    yield place(config / "skills", "user")
    above = _up_to_root(project)
    for folder in above:
        yield place(folder / ".claude" / "skills", "project")
    settings = [*(folder / ".claude" / name for folder in reversed(above) for name in CLAUDE_SETTINGS)]
    enabled: dict[str, Any] = {}
    for path in (config / "settings.json", *settings):
        enabled |= _table(_json_file(path), "enabledPlugins")
    for name, installs in _table(_json_file(config / "plugins" / "installed_plugins.json"), "plugins").items():
        if enabled.get(name, True) is False or not isinstance(installs, list):
            continue
        for install in installs:
            where = install.get("installPath") if isinstance(install, dict) else None
            if isinstance(where, str) and _is_installed_for(install, project):
                plugin = name.partition("@")[0]
                yield from _plugin_folders(Path(where), ".claude-plugin", place(plugin=plugin, path=Path(where)))


CLAUDE_SETTINGS = ("settings.json", "settings.local.json")


def _is_installed_for(install: Mapping[str, Any], project: Path) -> bool:
    """Whether a plugin is there for every project, or for this one."""
    of_project = install.get("projectPath")
    return not isinstance(of_project, str) or project.is_relative_to(Path(of_project))


def _codex_folders(config: Path, home: Path, project: Path) -> Iterator[SkillFolder]:
    """Those of the project, the user, plugins that are enabled, the machine, and Codex itself."""
    place = partial(SkillFolder, client="codex")
    for folder in _up_to_root(project):
        yield place(folder / ".agents" / "skills", "project")
        yield place(folder / ".codex" / "skills", "project")
    yield place(config / "skills", "user")
    yield place(home / ".agents" / "skills", "user")
    for name, entry in _table(_toml_file(config / "config.toml"), "plugins").items():
        plugin, _, market = name.partition("@")
        if not isinstance(entry, dict) or entry.get("enabled") is False or {plugin, market} & {"", ".", ".."}:
            continue
        versions = sorted((config / "plugins" / "cache" / market / plugin).glob("*/"), key=_age)
        for newest in versions[-1:]:
            yield from _plugin_folders(newest, ".codex-plugin", place(plugin=plugin, path=newest))
    yield place(Path("/etc/codex/skills"), "system")
    yield place(config / "skills" / ".system", "system")


def _plugin_folders(root: Path, manifest: str, place: SkillFolder) -> Iterator[SkillFolder]:
    """The places of a plugin's skills: `skills`, and what its manifest names if that lies within the plugin."""
    listed = _json_file(root / manifest / "plugin.json").get("skills", [])
    if not isinstance(listed, list):
        listed = [listed]
    inside = root.resolve()
    for path in dict.fromkeys([root / "skills", *(root / name for name in listed if isinstance(name, str))]):
        if path.resolve().is_relative_to(inside):
            yield place._replace(path=path, origin="plugin")


def _up_to_root(project: Path) -> list[Path]:
    """A folder and those above it up to the root of its repository; itself alone where there is none."""
    above = [project, *project.parents]
    roots = [place for place, folder in enumerate(above) if (folder / ".git").exists()]
    return above[: roots[0] + 1] if roots else above[:1]


def _skill_files(folder: SkillFolder, problems: dict[str, str]) -> Iterator[Path]:
    """The files of skills below a place, in the order of their names; a folder that links lead to twice counts once."""
    waiting = deque([(folder.path, 0)])
    seen: set[Path] = set()
    while waiting:
        place, depth = waiting.popleft()
        try:
            real = place.resolve()
            if real in seen or not place.is_dir():
                continue
            if len(seen) >= FOLDERS:
                problems[str(folder.path)] = f"has more than {FOLDERS:,} folders below it, and no more are looked into"
                return
            seen.add(real)
            with os.scandir(place) as entries:
                listed = sorted(islice(entries, ENTRIES), key=attrgetter("name"))
            below = [
                place / entry.name for entry in listed if not entry.name.startswith(".") and os.path.isdir(entry.path)
            ]
        except (OSError, RuntimeError) as error:  # a link that leads to itself is a RuntimeError
            problems[str(place)] = _why(error)
            continue
        if os.path.lexists(place / FILE):
            yield place / FILE
        if depth < folder.depth:
            waiting.extend((path, depth + 1) for path in below)


def _skill_of(path: Path, text: SkillText, folder: SkillFolder) -> Skill:
    """A skill as its file and its place say."""
    name = " ".join(text.fields.get("name", "").split())
    if folder.client == "claude-code" or not name:
        name = path.parent.name
    told = (text.fields.get("description", ""), text.fields.get("when_to_use", ""))
    description = " ".join(" ".join(told).split())
    if not description:
        description = _first_paragraph(text.body)
    if not description:
        raise DataError("must say what the skill is for. Add a description to its front matter.")
    on_request = text.fields.get("disable-model-invocation", "").lower() == "true"
    return Skill(
        name,
        description,
        server=folder.plugin,
        body=text.body,
        path=str(path),
        origin=folder.origin,
        client=folder.client,
        on_request=on_request,
    )


def _first_paragraph(body: str) -> str:
    """What Claude Code takes for the description where there is none."""
    paragraphs = (" ".join(part.split()) for part in body.split("\n\n"))
    return next((part for part in paragraphs if part and not part.startswith("#")), "")


def _file_text(path: Path) -> str:
    """The text of a file that is no device and not too large."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would be waited for
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise DataError("must be a file. Remove what stands in its place.")
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DataError(f"must have at most {LARGEST_FILE:,} bytes. Move what is not needed at once into other files.")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"must be UTF-8, and byte {error.start:,} is not. Save it as UTF-8.") from None


def _json_file(path: Path) -> dict[str, Any]:
    return _settings_file(path, json.loads)


def _toml_file(path: Path) -> dict[str, Any]:
    return _settings_file(path, tomllib.loads)


def _settings_file(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The table in a client's own file; empty where there is none that can be read."""
    try:
        table = parse(_file_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = settings.get(name)
    return value if isinstance(value, dict) else {}


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return str(error)
