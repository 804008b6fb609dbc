"""One JSON request over HTTP, as a client without a library sends it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any


def post(url: str, body: Mapping[str, Any], **headers: str) -> Any:
    sent = {"Content-Type": "application/json", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), sent), timeout=60) as answer:
        return json.load(answer)
