"""Chromium without a window, driven over a pipe by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 60


class Browser:
    """One page of a browser."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive, self._last, self._read = send, receive, 0, b""
        self._session, self._width = "", 0
        self.said: list[str] = []
        """What the page wrote to its console, and what went wrong on it."""

        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")
        self.asked: list[str] = []
        """The addresses that the page has asked for."""

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._last += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._last, "method": method, "params": parameters, **session}
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._last:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
            self._heard(found)

    def open(self, url: str, width: int, *, dark: bool = False, ready: str = "!!document.body.dataset.shown") -> None:
        """Show a page of this width, and wait until it says that it is ready."""
        self._width = width
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[feature])
        self.do("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && {ready}")

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.do("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true on the page."""
        ends = time.monotonic() + SECONDS
        while not self.run(script):
            assert time.monotonic() < ends, (
                f"{script} never came true; the page says {self.run('document.body.innerText')}"
            )
            time.sleep(0.05)

    def after(self, script: str) -> None:
        """Do something on the page, and wait until it shows what the service says to that."""
        shown = self.run("document.body.dataset.shown")
        self.run(script)
        self.until(f"document.body.dataset.shown !== {json.dumps(shown)}")

    def press(self, key: str, code: int) -> None:
        """A key on the keyboard."""
        for kind in ("rawKeyDown", "keyUp"):
            self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path: Path) -> None:
        """The whole page as it looks."""
        size = self.do("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self._width, "height": size["height"], "scale": 1}
        found = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            assert select.select([self._receive], [], [], SECONDS)[0], "The browser does not answer."
            found = os.read(self._receive, 1 << 20)
            assert found, "The browser has ended."
            self._read += found
        message, self._read = self._read.split(b"\0", 1)
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _heard(self, found: dict[str, Any]) -> None:
        method, parameters = found.get("method", ""), found.get("params", {})
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            if parameters.get("entry", {}).get("level") != "verbose":
                self.said.append(json.dumps(parameters))
        elif method == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])


@contextmanager
def browser(*further: str) -> Iterator[Browser]:
    """A browser with further options of its command while the block runs."""
    program = shutil.which("chromium")
    assert program, "There is no chromium. Install it with: apt-get install chromium"
    to_browser, from_browser = os.pipe(), os.pipe()

    def at_three_and_four() -> None:
        one, other = os.dup(to_browser[0]), os.dup(from_browser[1])
        os.dup2(one, 3)
        os.dup2(other, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}", *further]
        process = subprocess.Popen(
            [program, *options, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=at_three_and_four,
        )
        try:
            yield Browser(to_browser[1], from_browser[0])
        finally:
            process.terminate()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for end in (*to_browser, *from_browser):
                os.close(end)
