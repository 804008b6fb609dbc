"""How long `camdf usage` takes over 2 GB of transcripts, beside reading the same bytes, and in how much memory.

    python benchmarks/usage.py                              # 2 GB, generated in a temporary folder
    python benchmarks/usage.py --store results/usage.json
    python benchmarks/usage.py --check results/usage.json   # 64 MB: what is counted, memory, and processor time by byte

The transcripts are made up: sessions of Claude Code and Codex in the shapes of `tests/data/transcripts`, of which about
three quarters of the bytes are results of tools. Each file ends in a line that was cut short.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WHOLE = 2_000
"""Megabytes of the whole run."""

SHORT = 64
"""Of the short one."""

MOST_SECONDS = 30
MOST_MEMORY = 300
"""Megabytes."""

MOST_TIMES = 2.5
"""How many times the stored processor time by byte a check may take: another machine, or a busy one."""

TURNS = 400
"""Model calls of a session."""

MODELS = 3
"""So many sessions of each client are made up; the others are copies of them under names of their own."""

SESSION = "SESSION-NAME"
PROJECT = "PROJECT-NAME"

TOOLS = ("Bash", "Read", "Edit", "mcp__mail__send_message", "mcp__mail__list_messages", "mcp__issues__search")

PLAIN = """
import sys
from pathlib import Path
for path in sorted(Path(sys.argv[1]).rglob("*.jsonl")):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
"""


def texts(rng: random.Random) -> list[str]:
    """Results of tools of many lengths, with marks that JSON escapes."""
    words = ["path/to/file.py", '"type":"assistant"', "def main():\n", "Größe", "return", "\\", "the", "日本"]
    return [" ".join(rng.choices(words, k=count)) for count in (40, 80, 200, 600, 1_500, 4_000)]


def line(record: dict[str, Any]) -> bytes:
    """As clients write it."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def claude_code_session(rng: random.Random, pool: Sequence[str]) -> bytes:
    """A session whose prompts held the definitions of 60 tools."""
    whose = {"isSidechain": False, "cwd": f"/projects/ada/{PROJECT}", "sessionId": SESSION}
    whose |= {"version": "2.1.287", "timestamp": "2026-11-18T08:00:00.000Z"}
    defined = [*TOOLS[3:], *(f"mcp__server{place % 6}__tool{place}" for place in range(57))]
    tools = [{"name": name, "description": pool[1], "schema": {"type": "object"}} for name in defined]
    lines = [line({**whose, "attachment": {"type": "prompt_snapshot", "tools": tools}, "type": "attachment"})]
    for turn in range(TURNS):
        said = {"type": "text", "text": rng.choice(pool[:3])}
        call = {
            "type": "tool_use",
            "id": f"t{turn}",
            "name": rng.choice(TOOLS),
            "input": {"text": rng.choice(pool[:4])},
        }
        usage = {"input_tokens": 3, "cache_read_input_tokens": 900 * turn, "output_tokens": 200}
        for block in (said, call):
            message = {"id": f"m{turn}", "model": "claude-opus-5", "content": [block], "usage": usage}
            lines.append(line({**whose, "type": "assistant", "message": message}))
        result = rng.choice(pool[1:])
        message = {"role": "user", "content": [{"tool_use_id": f"t{turn}", "type": "tool_result", "content": result}]}
        lines.append(line({**whose, "type": "user", "message": message, "toolUseResult": {"stdout": result}}))
    return b"".join([*lines, lines[-2][:90]])


def codex_session(rng: random.Random, pool: Sequence[str]) -> bytes:
    """A session of Codex."""

    def item(kind: str, payload: dict[str, Any]) -> bytes:
        return line({"timestamp": "2026-11-18T08:00:00.000Z", "type": kind, "payload": payload})

    meta = {"id": SESSION, "cwd": f"/projects/ada/{PROJECT}", "cli_version": "0.169.0"}
    lines = [item("session_meta", meta), item("turn_context", {"model": "gpt-5.6", "cwd": meta["cwd"]})]
    for turn in range(TURNS):
        called = {
            "type": "function_call",
            "call_id": f"c{turn}",
            "arguments": json.dumps({"cmd": rng.choice(pool[:3])}),
        }
        of_server = {"namespace": "mcp__mail", "name": "send_message"} if turn % 4 == 0 else {"name": "exec_command"}
        lines.append(item("response_item", {**called, **of_server}))
        result = rng.choice(pool[1:])
        lines.append(item("response_item", {"type": "function_call_output", "call_id": f"c{turn}", "output": result}))
        last = {"input_tokens": 1000, "cached_input_tokens": 900 * min(turn, 1), "total_tokens": 1010}
        info = {"total_token_usage": {"total_tokens": 1010 * (turn + 1)}, "last_token_usage": last}
        lines.append(item("event_msg", {"type": "token_count", "info": info}))
    return b"".join([*lines, lines[-2][:90]])


def generate(home: Path, megabytes: int) -> dict[str, int]:
    """Transcripts of so many megabytes, and how many sessions and model calls they have."""
    rng = random.Random(50)
    pool = texts(rng)
    kinds = {"claude": claude_code_session, "codex": codex_session}
    models = {client: [session(rng, pool) for _ in range(MODELS)] for client, session in kinds.items()}
    written = 0
    sessions = 0
    while written < megabytes * 1e6:
        client = "codex" if sessions % 4 == 3 else "claude"
        project = f"project-{sessions % 9}"
        model = models[client][sessions % MODELS]
        content = model.replace(SESSION.encode(), b"%d" % sessions).replace(PROJECT.encode(), project.encode())
        folder = home / client / ("sessions/2026/11/18" if client == "codex" else f"projects/{project}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{sessions}.jsonl").write_bytes(content)
        written += len(content)
        sessions += 1
    return {"bytes": written, "sessions": sessions, "model_calls": sessions * TURNS}


def timed(home: Path, *command: str) -> tuple[dict[str, float], bytes]:
    """Seconds of a process, of its processor, its memory in megabytes; and what it printed."""
    settings = os.environ | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    settings |= {"CLAUDE_CONFIG_DIR": str(home / "claude"), "CODEX_HOME": str(home / "codex")}
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, *command], env=settings, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        assert os.waitstatus_to_exitcode(status) == 0, command
        process.returncode = 0
        output.seek(0)
        printed = output.read()
    processor = used.ru_utime + used.ru_stime
    return {"seconds": seconds, "processor": processor, "memory": used.ru_maxrss / 1024}, printed


def measure(megabytes: int) -> dict[str, Any]:
    """One run over so many made-up megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        made = generate(home, megabytes)
        plain, _ = timed(home, "-c", PLAIN, str(home))
        usage, printed = timed(home, "-m", "camdf", "usage", "--json")
    said = json.loads(printed)
    assert said["bytes"] == made["bytes"]
    assert sum(said["passed_over"].values()) == made["sessions"], said["passed_over"]
    assert sum(project["sessions"] for project in said["projects"]) == made["sessions"]
    assert sum(sum(project["model_calls"].values()) for project in said["projects"]) == made["model_calls"]
    return {
        "megabytes": round(made["bytes"] / 1e6),
        "sessions": made["sessions"],
        "model_calls": made["model_calls"],
        "seconds": round(usage["seconds"], 2),
        "processor_seconds": round(usage["processor"], 2),
        "memory_megabytes": round(usage["memory"]),
        "plain_seconds": round(plain["seconds"], 2),
        "plain_processor_seconds": round(plain["processor"], 2),
        "times_plain_processor": round(usage["processor"] / plain["processor"], 1),
    }


def wrong_in(now: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """What a short run does not hold of what the whole one promises."""
    by_byte = {name: run["processor_seconds"] / run["megabytes"] for name, run in (("now", now), ("stored", stored))}
    wrong: list[str] = []
    if max(now["memory_megabytes"], stored["memory_megabytes"]) > MOST_MEMORY:
        wrong.append(f"It took more than {MOST_MEMORY} MB of memory.")
    if stored["processor_seconds"] > MOST_SECONDS:
        wrong.append(f"The whole run took more than {MOST_SECONDS} s of a processor.")
    if (by_byte["now"] - 1.0 / now["megabytes"]) > MOST_TIMES * by_byte["stored"]:  # a second to start and to print
        wrong.append(f"It took {by_byte['now']:.4f} s for a megabyte, and {by_byte['stored']:.4f} s are stored.")
    return wrong


def main() -> int:
    """Run it, and say what is wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megabytes", type=int)
    options.add_argument("--store", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    now = measure(chosen.megabytes or (SHORT if chosen.check else WHOLE))
    print(json.dumps(now, indent=1))
    if chosen.store:
        chosen.store.write_text(json.dumps(now, indent=1) + "\n")
    wrong = wrong_in(now, json.loads(chosen.check.read_text())) if chosen.check else []
    for why in wrong:
        print(why, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
