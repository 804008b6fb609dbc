"""A stand-in for a model: it answers 'Done.' and notes which tools it got."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class OfflineModel:
    """An OpenAI-compatible chat endpoint at `url`.

    `tools_seen` has the names of the tools of every request, in order, and
    `notes_seen` those of the tools that a note after the last turn tells of.
    """

    def __init__(self) -> None:
        self.tools_seen: list[list[str]] = []
        self.notes_seen: list[list[str]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(
                    self.rfile.read(int(self.headers["Content-Length"]))
                )
                model.tools_seen.append(
                    [tool["function"]["name"] for tool in body.get("tools", [])]
                )
                turn = json.dumps(body["messages"][-1]["content"])
                model.notes_seen.append(re.findall(r"\\n- (\w+)\(", turn))
                said = {"role": "assistant", "content": "Done."}
                kind, part = (
                    ("chat.completion.chunk", "delta")
                    if body.get("stream")
                    else ("chat.completion", "message")
                )
                choice = {"index": 0, part: said, "finish_reason": "stop"}
                answer: dict[str, Any] = {
                    "id": "1",
                    "object": kind,
                    "created": 1,
                    "model": "offline",
                }
                text = json.dumps({**answer, "choices": [choice]})
                self.send_response(200)
                self.send_header(
                    "Content-Type",
                    "text/event-stream"
                    if body.get("stream")
                    else "application/json",
                )
                self.end_headers()
                self.wfile.write(
                    (
                        f"data: {text}\n\ndata: [DONE]\n\n"
                        if body.get("stream")
                        else text
                    ).encode()
                )

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
