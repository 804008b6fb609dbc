"""The real service as a process of its own, on a free port of this machine."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SECONDS = 60
"""The most that a start, an answer or an end may take here, on a busy machine."""

PLAIN = """
[server]
port = 0
reload_seconds = 0.05
drain_seconds = 5

[gate]
policy = "policy.json"
cost_pressure = 0.06
"""


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]


class Running:
    """A service that runs."""

    def __init__(self, process: subprocess.Popen[str], port: int, lines: queue.SimpleQueue[str], errors: Path) -> None:
        self.process, self.port, self.lines, self._errors = process, port, lines, errors
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: Any = None, *, method: str = "", headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own; a body that is not bytes goes as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            return asked(connection, path, body, method=method, headers=headers)
        finally:
            connection.close()

    def decide(self, body: Any, **headers: str) -> Any:
        answer = self.ask("/v1/decide", body, headers=headers)
        assert answer.status == 200, answer
        return answer.body

    def errors(self) -> str:
        """What it has said on standard error."""
        return self._errors.read_text(encoding="utf-8")

    def number(self, name: str) -> float:
        """One of its metrics."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.ask("/metrics").body, flags=re.M)
        assert found, name
        return float(found[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> int:
        """Ask it to end, and wait."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


def asked(
    connection: http.client.HTTPConnection,
    path: str,
    body: Any = None,
    *,
    method: str = "",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request on a connection."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    said = {"Content-Type": "application/json"} if content is not None else {}
    connection.request(method or ("GET" if content is None else "POST"), path, content, {**said, **(headers or {})})
    response = connection.getresponse()
    text = response.read()
    kind = response.headers.get("content-type", "")
    found = json.loads(text) if kind == "application/json" and text else text.decode()
    return Answer(response.status, found, {name.lower(): value for name, value in response.headers.items()})


def folder_of(place: Path, configuration: str = PLAIN) -> Path:
    """A folder with the golden policy and a configuration."""
    place.mkdir(exist_ok=True)
    (place / "policy.json").write_bytes((HERE / "golden-policy.json").read_bytes())
    (place / "camdf.toml").write_text(configuration, encoding="utf-8")
    return place


@contextmanager
def running(
    folder: Path,
    name: str = "camdf.toml",
    *,
    program: Sequence[str] = (sys.executable, "-m", "camdf"),
    settings: Mapping[str, str] | None = None,
    file_bytes: int | None = None,
) -> Iterator[Running]:
    """The service of a folder while the block runs; no file may grow beyond `file_bytes`."""
    errors = folder / "errors.txt"
    limit: Callable[[], None] | None = None
    if file_bytes is not None:
        most = file_bytes

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    command = [*program, "serve", name, "--state", "state"]
    with open(errors, "a", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(settings or {})},
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            preexec_fn=limit,
        )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        yield Running(process, _port(process, lines, errors), lines, errors)
    finally:
        process.kill()
        process.wait(SECONDS)
        reader.join(SECONDS)
        process.stdout.close()


def _read(output: Iterable[str], lines: queue.SimpleQueue[str]) -> None:
    for line in output:
        lines.put(line)


def _port(process: subprocess.Popen[str], lines: queue.SimpleQueue[str], errors: Path) -> int:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        try:
            found = re.match(r"camdf serves on http://127\.0\.0\.1:(\d+)$", lines.get(timeout=0.1))
        except queue.Empty:
            assert process.poll() is None, errors.read_text(encoding="utf-8")
            continue
        if found:
            return int(found[1])
    raise TimeoutError("The service did not start.")


def eventually(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "It never came to hold."
        time.sleep(0.02)


def ranking(scores: Mapping[str, float]) -> dict[str, Any]:
    """A request by scores of one's own."""
    return {"ranking": [{"name": name, "score": score} for name, score in scores.items()]}
