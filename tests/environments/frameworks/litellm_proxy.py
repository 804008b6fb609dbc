"""A LiteLLM proxy in a process of its own, in front of a scripted model. It takes half a minute to start."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
KEY = "sk-local"


@contextmanager
def running(
    folder: Path,
    gating: str,
    model_url: str,
    others: Mapping[str, Mapping[str, str]] = {},
    guardrails: Sequence[Mapping[str, Any]] = (),
    variables: Mapping[str, str] = {},
) -> Iterator[str]:
    """Its address, with the hook `gate_hook` of the module text `gating`, or with `guardrails`.

    The model is `scripted` by OpenAI's endpoints and `claude` by Anthropic's; `others` names further ones.
    """
    (folder / "gating.py").write_text(gating)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    entries = {
        "scripted": {"model": "openai/scripted", "api_base": model_url},
        "claude": {"model": "anthropic/scripted", "api_base": model_url.removesuffix("/v1")},
        **others,
    }
    models = [
        {"model_name": name, "litellm_params": {**entry, "api_key": "none", "max_retries": 0}}
        for name, entry in entries.items()
    ]
    config = folder / "config.yaml"
    settings = {"callbacks": "gating.gate_hook"} if gating else {}
    written = {"model_list": models, "litellm_settings": settings, "guardrails": list(guardrails)}
    config.write_text(json.dumps(written))  # JSON is YAML
    path = os.pathsep.join(str(ROOT / part) for part in ("src", "tests/parts", "tests/environments/frameworks"))
    environment = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": path}
    environment["CONFIG_FILE_PATH"] = str(config)  # one that is set already counts more than the option
    command = [str(Path(sys.executable).with_name("litellm")), "--config", str(config)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **environment, **variables},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process, folder / "log")
            yield url
        finally:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 240
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health/liveliness", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"The proxy did not start.\n{log.read_text()[-3000:]}")
