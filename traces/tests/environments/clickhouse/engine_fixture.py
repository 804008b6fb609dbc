"""The engine that all tests of this folder ask, as a fixture."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import clickhouse_connect
import pytest
from engines import PASSWORD, Engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("engine")
    command = [sys.executable, str(Path(__file__).with_name("served_engine.py")), str(folder), "reader", PASSWORD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        port = int(served.stdout.readline())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLICKHOUSE_PASSWORD", PASSWORD)
            client = clickhouse_connect.get_client(
                host="127.0.0.1",
                port=port,
                username="reader",
                password=PASSWORD,
                compress=False,
                autogenerate_session_id=False,
            )
            with closing(client):
                yield Engine(port, client)
        served.kill()
