"""Five journeys from the wheels, in clean environments: what pages tell a newcomer to type prints what they say.

The commands and programs are those of the pages themselves; Python blocks run as tests/parts/pages.py runs them. camdf,
camdf-traces and camdf-lab come from the wheels of .ci/build.py (CAMDF_DIST names their folder), and all else from the
ordinary index. The first journey uses pip itself and keeps the time to the first decision; in the others uv does what
pip would.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from running_service import running

ROOT = Path(__file__).parents[3]
UV = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser() / "uv" / "bin" / "uv"
BLOCK = re.compile(
    r"^```(?P<kind>\w*)(?: no-run)?\n(?P<body>.*?)^```(?:\n+```text\n(?P<printed>.*?)^```)?", re.M | re.S
)
"""A fenced block, with the block fenced as `text` right after it, which says what it prints."""

PIP = re.compile(r"pip install [^\n`]+")
FIVE_MINUTES = 300
MOST_SECONDS = 1800
"""For one block of commands, on a busy machine."""


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of all three distributions."""
    if "CAMDF_DIST" in os.environ:
        return Path(os.environ["CAMDF_DIST"]).resolve()
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / ".ci" / "build.py", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


class Newcomer:
    """Somebody with an empty folder, a clean environment and a page."""

    def __init__(self, folder: Path, dist: Path, pip: bool = False) -> None:
        self.folder, self.programs = folder / "work", folder / "environment" / "bin"
        self.folder.mkdir()
        without = () if pip else ("--without-pip",)
        subprocess.run([sys.executable, "-m", "venv", *without, self.programs.parent], check=True)
        if not pip:
            (self.programs / "pip").write_text(f'#!/bin/sh\nexec "{UV}" pip "$@"\n')
            (self.programs / "pip").chmod(0o755)
        wheels = f"{dist} {os.environ.get('PIP_FIND_LINKS', '')}".strip()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CAMDF"))}
        self.variables = kept | {
            "HOME": str(folder),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PIP_FIND_LINKS": wheels,
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
            "UV_COMPILE_BYTECODE": "1",  # as pip does
            "UV_FIND_LINKS": wheels.replace(" ", ","),
            "VIRTUAL_ENV": str(self.programs.parent),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def types(self, commands: str) -> str:
        """What the commands print, one after the other, in the newcomer's folder."""
        run = subprocess.run(
            ["sh", "-ec", commands], cwd=self.folder, env=self.variables, capture_output=True, text=True,
            timeout=MOST_SECONDS,
        )  # fmt: skip
        assert run.returncode == 0, f"{commands}\n{run.stdout}\n{run.stderr}"
        return run.stdout

    def reads(self, text: str) -> None:
        """Type the shell blocks of a text, and run its Python blocks; each prints what the text says that it prints."""
        for block in BLOCK.finditer(text):
            if block["kind"] in {"", "sh"}:
                printed = self.types(block["body"])
                assert block["printed"] in (None, printed), printed
        if "```python\n" in text:
            (self.folder / "page.md").write_text(text, encoding="utf-8")
            program = "from pathlib import Path; from pages import run_page; assert run_page(Path('page.md'))"
            self.runs(program)

    def runs(self, program: str) -> str:
        """What a Python program prints. It finds tests/parts/pages.py and the newcomer's own files, and no checkout."""
        (self.folder / "run.py").write_text(program, encoding="utf-8")
        shutil.copy(ROOT / "tests" / "parts" / "pages.py", self.folder)
        return self.types("python -W error::DeprecationWarning:__main__ run.py")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, words: str) -> str:
    """The first part of a page, under one heading, that has these words."""
    return next(part for part in re.split(r"^(?=## )", text, flags=re.M) if words in part)


Starting = Callable[..., Newcomer]


@pytest.fixture
def newcomer(tmp_path: Path, dist: Path) -> Starting:
    def started(pip: bool = False) -> Newcomer:
        return Newcomer(tmp_path, dist, pip)

    return started


def catalogue() -> dict[str, str]:
    tools: dict[str, str] = runpy.run_path(str(ROOT / "examples" / "travel.py"))["CATALOGUE"]
    return tools


def test_a_developer_has_a_gated_call_within_five_minutes(
    newcomer: Starting, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    developer = newcomer(pip=True)
    (developer.folder / "tools.json").write_text(json.dumps(catalogue()), encoding="utf-8")
    start = section(page("README.md"), "pip install 'camdf[start]'")
    install, *others = (block[0] for block in BLOCK.finditer(start))
    developer.reads(install)
    programs = [block for block in others if block.startswith("```python\n")]
    developer.reads("\n".join(programs))
    seconds = time.monotonic() - started
    with capsys.disabled():
        print(f"\nFrom an empty folder to the first gated call: {seconds:.0f} s, of which most is pip.")
    assert seconds < FIVE_MINUTES
    developer.reads("\n".join(block for block in others if block not in programs))
    developer.reads(page("docs/own-loop.md"))


def test_a_developer_gates_an_agent_of_langchain(newcomer: Starting) -> None:
    developer, text = newcomer(), page("docs/integrations/langchain.md")
    developer.types("\n".join(PIP.findall(text)))
    for helper in ("with_langchain.py", "travel.py", "offline_model.py"):
        shutil.copy(ROOT / "examples" / helper, developer.folder)
    assert f"```text\n{developer.types('python with_langchain.py')}```" in text


def test_a_person_with_many_servers_has_one_in_front_of_them(newcomer: Starting) -> None:
    person = newcomer()
    shutil.copytree(ROOT / "examples" / "with_mcp", person.folder / "examples" / "with_mcp")
    text = section(page("docs/mcp.md"), "python client.py")
    person.reads(text.replace("\ncamdf mcp report", "\ncd examples/with_mcp\ncamdf mcp report"))  # a shell of its own


def test_a_platform_team_serves_decisions(newcomer: Starting) -> None:
    team, text = newcomer(), page("docs/service.md")
    team.types(PIP.findall(text)[0])
    (configuration,) = re.findall(r"^```toml\n(.*?)^```", text.partition("```python\n")[0], flags=re.M | re.S)
    (team.folder / "camdf.toml").write_text("[server]\nport = 0\n\n" + configuration, encoding="utf-8")
    (command,) = set(re.findall(r"^\$ (camdf serve camdf.toml)$", text, flags=re.M))
    program = (str(team.programs / command.split()[0]),)
    with running(team.folder, program=program, settings={"PYTHONPATH": ""}) as service:
        tools = [
            {"name": name, "description": description, "input_schema": {"type": "object"}}
            for name, description in catalogue().items()
        ]
        asked = {"messages": [{"role": "user", "content": "Play a song of the Beatles"}], "tools": tools}
        decision = service.decide(asked)
        assert "play_music" in decision["kept"]
        assert [tool["name"] for tool in decision["search"]] == ["find_tool", "call_tool"]
        assert service.stop() == 0
    team.reads("\n".join(re.findall(r"^```python\n.*?^```\n+```text\n.*?^```", text, flags=re.M | re.S)))


def test_an_engineer_goes_from_traces_to_a_gate(newcomer: Starting) -> None:
    engineer, text = newcomer(), section(page("README.md"), "\ncamdf mine traces/ -o tasks.parquet")
    (extras,) = set(re.findall(r"`(camdf\[[\w,]+\])`", text))
    engineer.types(f"pip install '{extras}'")
    shutil.copy(ROOT / "examples" / "made_up_traces.py", engineer.folder)
    made = "import json, runpy; made = runpy.run_path('made_up_traces.py'); made['write_spans']('traces', runs=120)\n"
    engineer.runs(made + "json.dump(made['TOOLS'], open('tools.json', 'w'))")
    engineer.reads(text)
    assert "label noise" in engineer.types("camdf audit ranked.parquet")
    (gate,) = re.findall(r"`([^`]*camdf\.load\(\"policy\.json\"\)[^`]*)`", text)
    kept = engineer.runs(
        "import camdf, json; from camdf import Gate, Start\n"
        "tools = [camdf.Tool(*item) for item in json.load(open('tools.json')).items()]\n"
        f"gate = {gate}\n"
        "print(*gate.decide('Cancel order 1041 of customer Ada, who wanted lamps', tools).kept)"
    )
    assert "cancel_order" in kept.split()


def test_a_researcher_measures_stored_figures_again(newcomer: Starting) -> None:
    researcher, text = newcomer(), page("lab/README.md")
    assert "\ncamdf-lab check " in text
    researcher.reads(re.sub(r"\ncamdf-lab check .*", "", text))  # minutes: CI has a step of its own for it
    assert "main" in researcher.types("camdf lab list")
