"""Every command on a real terminal, in an environment that holds its smallest documented extra and nothing else.

`.ci/environments terminal` makes the environments, and `pytest tests/environments/terminal` uses them. The plain run of
pytest leaves this file out: see `addopts` in pyproject.toml.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import camdf
from camdf import datasets
from camdf_lab import domains
from running_service import PLAIN, folder_of, running
from scripted_endpoint import answers, endpoint

CACHE = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser()
EXTRAS = ("numpy", "bm25", "lab", "mining", "plot", "serve", "spark", "start", "train")
"""One environment each; `numpy` is the package without any extra, and `lab` holds camdf-lab."""

SECONDS = 300
"""The most that one command may take here."""

COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

DISTRIBUTIONS = """
import json
from importlib.metadata import distributions
print(json.dumps({each.metadata["Name"]: each.requires or [] for each in distributions()}))
"""


def programs(extra: str) -> Path:
    """The folder of programs of the environment with this extra alone."""
    found = CACHE / f"terminal-{extra}" / "bin"
    if not (found / "camdf").exists():
        missing = f"There is no {found / 'camdf'}. Make it with: .ci/environments terminal"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def typed(extra: str, *arguments: object, within: Path) -> tuple[int, str]:
    """The exit code of `camdf ARGUMENTS` on a terminal, in the folder `within`, and all that the terminal shows."""
    command = [str(programs(extra) / "camdf"), *map(str, arguments)]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    settings |= {"HOME": str(within), "TERM": "xterm-256color", "CAMDF_CACHE": str(within)}
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, cwd=within, env=settings)
    os.close(end)
    try:
        seen = b"".join(_read(terminal))
        code = process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    return code, COLORS.sub("", seen.decode()).replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    """What arrives at a terminal until the last process on it ends."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            arrived = os.read(terminal, 65536)
        except OSError:  # Linux says so where nobody holds the other end any more
            return
        if not arrived:
            return
        yield arrived
    raise TimeoutError(f"The command takes more than {SECONDS} s.")


def works(extra: str, *arguments: object, within: Path) -> str:
    """What the terminal shows of a command that must work."""
    code, shown = typed(extra, *arguments, within=within)
    assert code == 0, shown
    assert "Traceback" not in shown
    return shown


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    path = tmp_path / "logged.jsonl"
    datasets.write_jsonl(domains.load("airline", "claude", dispersion=1.0), path)
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.json"
    fitted = camdf.ExpectedPayoffBySet().fit(domains.load("retail", "claude", dispersion=1.0), camdf.Payoff(0.12))
    camdf.save(fitted, path)
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of two tasks and three tools, to be scored."""
    folder = tmp_path / "texts"
    folder.mkdir()
    tools = {"get_weather": "Weather forecast", "send_mail": "Send a mail", "play_music": "Play a song"}
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    tasks = [{"task_id": "a", "text": "The weather forecast for Oslo"}, {"task_id": "b", "text": "Send a mail"}]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    return folder


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Forty runs before a gate that explores: three tools ranked, the first or the first two called."""
    path = tmp_path / "traces.jsonl"
    lines = []
    for run in range(40):
        trace, ranked = {"trace_id": f"t{run}"}, ["search", "mail", "maps"]
        called = ranked[: 1 + run % 2]
        decision = {"ranked": ranked, "scores": [0.9, 0.4 + 0.3 * (run % 2), 0.01 * run], "explored": True}
        lines += [
            {
                **trace,
                "span_id": "agent",
                "kind": "agent",
                "name": "assistant",
                "success": True,
                "start": run,
                **decision,
            },
            {
                **trace,
                "span_id": "model",
                "parent_id": "agent",
                "kind": "model",
                "offered": ranked,
                "requested": called,
            },
            *(
                {**trace, "span_id": f"call {name}", "parent_id": "agent", "kind": "tool", "name": name}
                for name in called
            ),
        ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_environment_holds_what_its_extra_brings_and_nothing_else(extra: str) -> None:
    command = [str(programs(extra) / "python"), "-c", DISTRIBUTIONS]
    installed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    requires = {plain(name): [Requirement(line) for line in lines] for name, lines in installed.items()}
    root = ("camdf-lab", frozenset[str]()) if extra == "lab" else ("camdf", frozenset({extra}))
    wanted, brought = [root], set[tuple[str, frozenset[str]]]()
    while wanted:
        name, extras = each = wanted.pop()
        if each in brought:
            continue
        brought.add(each)
        wanted += [
            (plain(line.name), frozenset(line.extras))
            for line in requires.get(name, [])
            if line.marker is None or any(line.marker.evaluate({"extra": chosen}) for chosen in extras or {""})
        ]
    assert requires.keys() <= {"pip", "setuptools", *(name for name, _ in brought)}, "remove it, and make it again"
    assert ("rich" in requires) == (extra == "lab")


def plain(name: str) -> str:
    """The name of a package as all indexes agree on it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_fit_with_numpy_alone(logged: Path, tmp_path: Path) -> None:
    shown = works("numpy", "fit", logged, "-o", "policy.json", "--cost-pressure", 0.12, "--splits", 4, within=tmp_path)
    assert "4 of 4 splits, about 0 s left\n" in shown
    assert re.search(r"^expected-payoff-by-set (is worth it|is not worth it|not shown to be worth it): ", shown, re.M)
    assert camdf.load(tmp_path / "policy.json").kind == "expected-payoff-by-set"


def test_evaluate_with_numpy_alone(policy: Path, logged: Path, tmp_path: Path) -> None:
    shown = works("numpy", "evaluate", policy, logged, "--cost-pressure", 0.12, "--splits", 4, within=tmp_path)
    assert "4 of 4 splits, about 0 s left\n" in shown
    assert "this policy minus it" in shown


def test_calibrate_with_numpy_alone(policy: Path, logged: Path, tmp_path: Path) -> None:
    promised = works("numpy", "calibrate", policy, logged, "--min-sufficiency", 0.5, within=tmp_path)
    assert re.search(r"^--cost-pressure \d", promised, re.M)
    within_budget = works("numpy", "calibrate", policy, logged, "--budget", 2.5, within=tmp_path)
    assert re.search(r"^--cost-pressure \d", within_budget, re.M)


def test_curve_with_train(logged: Path, tmp_path: Path) -> None:
    shown = works("train", "curve", logged, "--cost-pressure", 0.12, "--splits", 2, within=tmp_path)
    assert "fits of three policies, about 0 s left\n" in shown
    assert "labeled tasks" in shown


def test_a_picture_of_the_curve_with_plot(logged: Path, tmp_path: Path) -> None:
    drawn = ("-o", "curve.png")
    shown = works("plot", "curve", logged, "--cost-pressure", 0.12, "--splits", 2, *drawn, within=tmp_path)
    assert "wrote curve.png" in shown
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_score_by_bm25_with_bm25(texts: Path, tmp_path: Path) -> None:
    shown = works("bm25", "score", texts, "--scorer", "bm25", "-o", "scores.jsonl", within=tmp_path)
    assert "2 of 2 tasks, about 0 s left\n" in shown
    assert "2 tasks read: 2 scored" in shown
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 2


def test_score_by_a_language_model_with_numpy_alone(texts: Path, tmp_path: Path) -> None:
    with endpoint(answers({"get_weather": 0.9, "send_mail": 0.2, "play_music": 0.1})) as served:
        judged = ("--scorer", "llm", "--url", served.url, "--model", "any", "-o", "scores.jsonl")
        shown = works("numpy", "score", texts, *judged, within=tmp_path)
    assert "2 of 2 tasks, about 0 s left\n" in shown
    assert "2 tasks read: 2 scored" in shown


def test_examples_are_written_and_checked_with_numpy_alone(texts: Path, tmp_path: Path) -> None:
    needed = {"Will it rain?": "get_weather", "Write to Bob": "send_mail", "Some jazz please": "play_music"}
    written = {"examples": [{"text": text, "needed": [name], "lang": "en"} for text, name in needed.items()]}
    with endpoint(answers(written)) as served:
        asked = ("--endpoint", served.url, "--model", "any", "--per-tool", 1, "--together", 0, "--none", 0)
        shown = works("numpy", "examples", texts / "tools.json", "-o", "examples.jsonl", *asked, within=tmp_path)
    assert shown.startswith("1 call, about ")
    assert "1 of 1 calls, about 0 s left\n" in shown
    assert "3 examples for 3 tools: 3 made up\nwrote examples.jsonl\n" in shown
    checked = ("--check", "examples.jsonl", "--tools", texts / "tools.json")
    assert "\n  words " in works("numpy", "examples", *checked, within=tmp_path)


def test_mine_and_audit_with_mining(traces: Path, tmp_path: Path) -> None:
    mined = works("mining", "mine", traces, "-o", "tasks.parquet", "--statistics", "statistics.json", within=tmp_path)
    assert "wrote tasks.parquet\nwrote statistics.json" in mined
    audited = works("mining", "audit", "tasks.parquet", within=tmp_path)
    assert "label noise" in audited
    assert "This needs" not in audited


def test_mine_audit_and_fit_with_spark(traces: Path, tmp_path: Path) -> None:
    mined = works("spark", "mine", traces, "-o", "tasks", "--engine", "spark", within=tmp_path)
    assert "wrote tasks" in mined
    assert "Not estimated." not in works("spark", "audit", "tasks", within=tmp_path)
    quick = ("--cost-pressure", 0.12, "--splits", 2, "--policy", "cam-df, no identity")
    there = works("spark", "fit", "tasks", "-o", "a.json", *quick, "--engine", "spark", within=tmp_path)
    assert "wrote a.json" in there
    here = works("spark", "fit", "tasks", "-o", "b.json", *quick, within=tmp_path)
    assert "2 of 2 splits, about 0 s left\n" in here


@pytest.mark.parametrize("extra", ["start", "bm25"])
def test_try_with_start_or_with_words_alone(extra: str, tmp_path: Path) -> None:
    tools = Path(__file__).parents[2] / "data" / "everyday" / "catalogue-40.json"
    request = "What will the weather be like in Oslo tomorrow?"
    shown = works(extra, "try", tools, request, "--tool-search", within=tmp_path)
    assert re.search(r"^ +1  get_(forecast|current_weather) +█+ .* kept$", shown, re.M)
    assert "the tool search included" in shown
    assert ("word vectors" in shown) == (extra == "start")
    assert f'"scorer": "{extra}"' in works(extra, "try", tools, request, "--json", within=tmp_path)


def test_worth_says_in_a_sentence_whether_gating_pays(tmp_path: Path) -> None:
    tools = Path(__file__).parents[2] / "data" / "everyday" / "catalogue-40.json"
    shown = works("numpy", "worth", tools, "--turns", 6, within=tmp_path)
    assert "\nGating saves money here: " in shown


def test_usage_reads_what_coding_agents_wrote(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "transcripts"
    shutil.copytree(data / "claude", tmp_path / ".claude")
    shutil.copytree(data / "codex", tmp_path / ".codex")
    shown = works("numpy", "usage", within=tmp_path)
    assert "send_message (1)" in shown
    assert "█" in shown


def test_serve_with_serve(tmp_path: Path) -> None:
    program = [str(programs("serve") / "camdf")]
    with running(folder_of(tmp_path / "served"), program=program, settings={"PYTHONPATH": ""}) as service:
        messages = [{"role": "user", "content": "What will the weather be like in Oslo?"}]
        tools = [{"name": name, "description": f"{name} for a city"} for name in ("weather", "music")]
        assert service.decide({"messages": messages, "tools": tools})["kept"] == ["weather"]
        assert service.stop() == 0


def test_learn_with_serve(tmp_path: Path) -> None:
    folder_of(tmp_path, PLAIN + "\n[learn]\n")
    assert "\npolicy.json: No challenger yet" in works("serve", "learn", "camdf.toml", within=tmp_path)


def test_the_lab_without_its_package_says_what_to_install(tmp_path: Path) -> None:
    assert typed("numpy", "lab", "list", within=tmp_path) == (
        2,
        "camdf: The lab is a package of its own. Install it with: pip install camdf-lab\n",
    )


def test_lab_list_run_and_report_with_lab(tmp_path: Path) -> None:
    assert re.search(r"^main +What each policy earns", works("lab", "lab", "list", within=tmp_path), re.M)
    shown = works("lab", "lab", "run", "metatool", within=tmp_path)
    assert re.search("cells ━+ 2/2 ", shown)
    assert "MetaTool" in shown
    assert "|" not in shown.partition("MetaTool")[2]
    assert "wrote page.md" in works("lab", "lab", "report", "-o", "page.md", within=tmp_path)


def test_lab_past_with_lab(tmp_path: Path) -> None:
    assert works("lab", "lab", "past", "page", "--page", "page.md", within=tmp_path) == "wrote page.md\n"


@pytest.mark.parametrize(
    ("extra", "arguments", "named"),
    [
        ("numpy", ["fit", "logged.jsonl", "-o", "x.json", "--cost-pressure", "0.1", "--policy", "cam-df"], "train"),
        ("numpy", ["curve", "logged.jsonl", "--cost-pressure", "0.1"], "train"),
        ("numpy", ["mine", "traces.jsonl", "-o", "x.parquet"], "mining"),
        ("numpy", ["score", "texts", "--scorer", "bm25", "-o", "x.jsonl"], "bm25"),
        ("numpy", ["score", "texts", "--scorer", "minilm", "-o", "x.jsonl"], "embeddings"),
        ("numpy", ["serve", "camdf.toml"], "serve"),
        ("numpy", ["try", "texts/tools.json", "The weather forecast"], "start"),
        ("numpy", ["learn", "camdf.toml"], "serve"),
        ("train", ["curve", "logged.jsonl", "--cost-pressure", "0.1", "-o", "x.png"], "plot"),
        ("mining", ["mine", "traces.jsonl", "-o", "x", "--engine", "spark"], "spark"),
        ("mining", ["mine", "traces.jsonl", "--into", "x", "--day", "2026-11-14"], "delta"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else str(value),
)
def test_a_command_without_its_extra_names_the_extra_and_nothing_else(
    extra: str, arguments: Sequence[str], named: str, logged: Path, traces: Path, texts: Path, tmp_path: Path
) -> None:
    code, shown = typed(extra, *arguments, within=tmp_path)
    assert code == 2, shown
    assert shown.count("\n") == 1, shown
    assert re.fullmatch(rf"camdf: This needs \w+\. Install it with: pip install 'camdf\[{named}\]'", shown.strip())
