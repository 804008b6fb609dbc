"""The process: uvicorn around the application, files looked at again and again, and an end that loses nothing.

At SIGTERM the service says that it is not ready and closes every connection with its next answer. It ends once all are
closed, or after `server.drain_seconds`. SIGHUP looks at the files at once.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from camdf.errors import UsageError, needs
from camdf.service.app import Service
from camdf.service.outcomes import OutcomeLog
from camdf.service.store import VersionStore
from camdf.service.wire import Connections, Wire

with needs("serve"):
    import uvicorn

LOG = logging.getLogger("camdf.service")
BACKLOG = 2048
SWITCH = 0.0005
"""Seconds that work on a thread may hold up the event loop while it computes; Python's own is ten times as long."""

COLLECT = (50_000, 20, 20)
"""When garbage is collected: a long body is a hundred thousand objects, and should not be looked through again and
again while it is parsed."""

LEARNED = "learned"
"""The file in the state folder that is as old as the last look at what could be learned."""

BACK = 10
"""Added to the niceness of a process that learns, so that the one that decides goes first."""


class Server(uvicorn.Server):
    """uvicorn's, with a drain before the end."""

    def __init__(self, service: Service, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.service = service
        self._drains_since: float | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        """The first signal begins to drain, the second ends at once."""
        if self._drains_since is not None:
            self.should_exit = True
        self.service.draining = True
        self._drains_since = time.monotonic()

    async def on_tick(self, counter: int) -> bool:
        """Whether it is over, asked ten times a second."""
        over = await super().on_tick(counter)
        if self._drains_since is None:
            return over
        seconds = self.service.store.current.configuration.server.drain_seconds
        done = not self.server_state.connections and time.monotonic() > self._drains_since + min(seconds, 0.5)
        return over or done or time.monotonic() > self._drains_since + seconds

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and say where, or why not. uvicorn would log the reason as it is and leave."""
        settings = self.service.store.current.configuration.server
        try:
            await super().startup(sockets or await _bound(settings.host, settings.port))
        except OSError as error:
            raise UsageError(_why_not(error, settings.host, settings.port)) from None
        if not self.should_exit:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            named = f"[{host}]" if ":" in host else host
            print(f"camdf serves on http://{named}:{port}", flush=True)


def serve(path: Path, state: Path) -> int:
    """Serve a configuration, or one policy with the defaults, until a signal ends it."""
    _log_to_stderr()
    sys.setswitchinterval(SWITCH)
    store = VersionStore(path, state)
    outcomes = OutcomeLog(state)
    service = Service(store, outcomes)
    settings = store.current.configuration.server
    connections = Connections(
        lambda: store.current.configuration.limits, lambda status: service.metrics.answered(status)()
    )
    config = uvicorn.Config(
        service,
        http=partial(Wire, connections),  # type: ignore[arg-type]
        host=settings.host,
        port=settings.port,
        proxy_headers=False,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
    )
    server = Server(service, config)
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_serve_until_over(server, store))
    finally:
        outcomes.close()
    return 0 if server.started else 2


async def _bound(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that a host has, as asyncio binds them, not listening yet."""
    made = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        return [socket.socket(fileno=socket.dup(bound.fileno())) for bound in made.sockets]
    finally:
        made.close()


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken. Stop what listens there, or configure another server.port."
    why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
    return f"Cannot listen on port {port} of {host}: {why}. Correct server.host or server.port."


def _log_to_stderr() -> None:
    """What the service itself says, and uvicorn's warnings; no other library's, which may repeat what users wrote."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("camdf.service", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False


async def _serve_until_over(server: Server, store: VersionStore) -> None:
    now = asyncio.Event()
    with suppress(NotImplementedError, AttributeError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, now.set)
    beside = [asyncio.create_task(_watch_files(store, now)), asyncio.create_task(_learn_now_and_then(store))]
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    try:
        await server.serve()
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def _watch_files(store: VersionStore, now: asyncio.Event) -> None:
    """Look at the files every so often, on a thread, so that requests go on meanwhile."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(store.current.configuration.server.reload_seconds):
                await now.wait()
        now.clear()
        await asyncio.to_thread(store.refresh)


async def _learn_now_and_then(store: VersionStore) -> None:
    """Have `camdf learn` look every so often, in a process of its own that waits for whoever decides."""
    mark = store.state / LEARNED
    while True:
        await asyncio.sleep(store.current.configuration.server.reload_seconds)
        settings = store.current.configuration.learn
        if settings is None or not settings.every_hours:
            continue
        if not mark.exists() or abs(time.time() - mark.stat().st_mtime) >= settings.every_hours * 3600:
            try:
                mark.touch()
                await _run_camdf_learn(store)
            except OSError as error:
                LOG.error("Nothing could be learned: %s", error.strerror)


async def _run_camdf_learn(store: VersionStore) -> None:
    command = [sys.executable, "-m", "camdf", "learn", str(store.path), "--state", str(store.state)]
    looking = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        if hasattr(os, "setpriority"):  # which Windows has not
            os.setpriority(os.PRIO_PROCESS, looking.pid, os.getpriority(os.PRIO_PROCESS, 0) + BACK)
        said, _ = await looking.communicate()
        for line in said.decode(errors="replace").splitlines():
            LOG.info("Learning: %s", line)
    finally:
        with suppress(ProcessLookupError):
            looking.kill()
