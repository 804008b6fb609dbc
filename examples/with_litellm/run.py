"""A LiteLLM proxy that forwards, of a dozen tools, those that a chat deserves.

The proxy takes about half a minute to start.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
from offline_model import OfflineModel  # noqa: E402
from travel import CATALOGUE  # noqa: E402

tools = [
    {"type": "function", "function": {"name": name, "description": text}}
    for name, text in CATALOGUE.items()
]


def post(url, body):
    headers = {
        "Authorization": "Bearer sk-example",
        "Content-Type": "application/json",
    }
    with urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(body).encode(), headers),
        timeout=60,
    ) as answer:
        return json.load(answer)


def wait_for(url, proxy, log):
    until = time.monotonic() + 240
    while time.monotonic() < until and proxy.poll() is None:
        try:
            return urllib.request.urlopen(
                f"{url}/health/liveliness", timeout=2
            ).close()
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"The proxy did not start.\n{Path(log.name).read_text()}")


model = OfflineModel()
with socket.socket() as held:
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
url = f"http://127.0.0.1:{port}"
settings = {
    "OFFLINE_MODEL_URL": model.url,
    "LITELLM_MASTER_KEY": "sk-example",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
program = Path(sys.executable).with_name("litellm")
if not program.exists():
    raise SystemExit(
        "The proxy is missing. Install it: pip install 'camdf[start,litellm]'"
    )
command = (
    f"{program} --config config.yaml --host 127.0.0.1 --port {port}".split()
)
with tempfile.NamedTemporaryFile() as log:
    proxy = subprocess.Popen(
        command,
        cwd=HERE,
        env={**os.environ, **settings},
        stdout=log,
        stderr=log,
    )
    try:
        wait_for(url, proxy, log)
        history = []
        turns = [
            "Book a flight to Oslo and find a hotel room",
            "Tomorrow please",
            "Then play a song by Grieg for me",
        ]
        for turn in turns:
            history.append({"role": "user", "content": turn})
            answer = post(
                f"{url}/v1/chat/completions",
                {"model": "offline", "messages": history, "tools": tools},
            )
            history.append(
                {
                    "role": "assistant",
                    "content": answer["choices"][0]["message"]["content"],
                }
            )
            print(turn, ", ".join(model.tools_seen[-1]), sep="\n  ")
    finally:
        proxy.kill()
        proxy.wait()
