"""The real Codex CLI in a home of its own, with a model on loopback that does what it is scripted to do."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CACHE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf"))
CODEX = CACHE / "codex" / "node_modules" / ".bin" / "codex"
HOME = CACHE / "codex" / "home"
"""Not in the system's folder for temporary files, where Codex refuses to work. It stays after the tests."""

WORK = HOME / "work"

TRANSCRIPTS = HOME / ".codex" / "sessions"
"""Where Codex wrote down the sessions of the last run."""

PATIENCE = 600.0
"""Seconds that anything may take on a busy machine."""


class Model:
    """Answers OpenAI Responses: each call of `script` in its turn, and a text once a tool has answered."""

    def __init__(self) -> None:
        self.script: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The item that the model says next."""
        self.requests.append(request)
        if self.script:
            number = len(self.requests)
            return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", **self.script.pop(0)}
        text = {"type": "output_text", "text": "Done.", "annotations": []}
        return {"type": "message", "role": "assistant", "id": "msg_1", "content": [text]}

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler_class(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send("application/json", '{"object": "list", "data": [], "models": []}')

        def do_POST(self) -> None:
            item = model.answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            events: list[dict[str, Any]] = [
                {"type": "response.created", "response": {"id": "resp_1"}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
            ]
            written = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            self._send("text/event-stream", "".join(written))

        def _send(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def own_variables() -> dict[str, str]:
    """Nothing of this machine's user but where programs are."""
    node = os.path.dirname(shutil.which("node") or "/usr/bin/node")
    path = os.pathsep.join([str(CODEX.parent), node, "/usr/bin", "/bin"])
    return {"HOME": str(HOME), "CODEX_HOME": str(HOME / ".codex"), "PATH": path, "DUMMY_KEY": "x"}


class AppServer:
    """Codex's app server, which is asked by lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ids = iter(range(1, 1_000))
        self._heard: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        info = {"name": "camdf-tests", "title": None, "version": "1"}
        self.ask("initialize", clientInfo=info)
        self._say({"method": "initialized"})

    def hooks(self) -> list[dict[str, Any]]:
        """The hooks that Codex has found, and whether it trusts them."""
        [listed] = self.ask("hooks/list", cwds=[str(WORK)])["data"]
        found: list[dict[str, Any]] = listed["hooks"]
        return found

    def thread(self) -> str:
        """Begin a session, and with it the servers."""
        asked = self.ask("thread/start", cwd=str(WORK), approvalPolicy="never", sandbox="danger-full-access")
        return str(asked["thread"]["id"])

    def turn(self, thread: str, text: str) -> None:
        """Say something, and wait until Codex has done with it."""
        self.ask("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
        self._until(lambda message: message.get("method") == "turn/completed")

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._say({"id": number, "method": method, "params": params})
        answer = self._until(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put(json.loads(line))

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            if is_it(message):
                return message


@contextmanager
def app_server(*settings: str) -> Iterator[AppServer]:
    """Codex with settings beside those of its files."""
    command = [str(CODEX), "app-server", *(part for setting in settings for part in ("-c", setting))]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=own_variables(), cwd=WORK, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield AppServer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def trust_in(hook: dict[str, Any]) -> str:
    """The setting by which Codex trusts a hook, as it writes it down once its user has said so."""
    state = f"{{ {json.dumps(hook['key'])} = {{ trusted_hash = {json.dumps(hook['currentHash'])} }} }}"
    return f"hooks.state={state}"
