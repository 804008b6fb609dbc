"""One JSON request over HTTP, as a client without a library sends it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


def post(url: str, body: Mapping[str, Any], **headers: str) -> Any:
    sent = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), sent)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        refused.add_note(refused.read().decode(errors="replace")[:2000])
        raise
