"""The OpenAPI document, held to its word by schemathesis with every check on; `.ci/environments` installs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from running_service import PLAIN, folder_of, running

SCHEMATHESIS = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser() / "schemathesis" / "bin" / "st"
TOKEN = "a-token-of-more-than-sixteen-characters"
LIMITS = '\n[limits]\nbody_bytes = 50_000_000\nbatch = 20\n\n[routes.support]\nmode = "shadow"\n'
"""Bodies that break a bound by one are to be refused for that bound, and not for their length."""


def test_schemathesis_finds_nothing_with_every_check_on(tmp_path: Path) -> None:
    configuration = PLAIN.replace("[gate]", 'token_variable = "TOKEN"\n\n[gate]') + LIMITS
    headers = ["-H", f"Authorization: Bearer {TOKEN}"]
    with running(folder_of(tmp_path / "served", configuration), settings={"TOKEN": TOKEN}) as service:
        options = ["--checks", "all", "--max-examples", "15", "--seed", "1", "--generation-database", "none", *headers]
        command = [str(SCHEMATHESIS), "run", f"{service.url}/openapi.json", *options]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert run.returncode == 0, run.stdout[:2000] + run.stdout[-2000:]
        assert "9 selected / 9 total" in run.stdout
        assert "Traceback" not in service.errors()
