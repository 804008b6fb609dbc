"""A model on loopback, compatible with OpenAI and Anthropic, that records every request and answers from a script.

The local language model is too small to drive an agent loop (it never calls a tool on purpose), so the loops of the
frameworks talk to this server over real HTTP; what counts is the request that reaches it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class ScriptedCall:
    """The model calls a tool."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    """An object, or the text that a model wrote in its place, which may be broken."""

    @property
    def text(self) -> str:
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments)


Step = str | ScriptedCall | tuple[ScriptedCall, ...]
"""What the model answers: a text, a call, or calls side by side."""

Answer = str | list[tuple[str, ScriptedCall]]
"""The same as it is written down: every call with an id that no other call of this model has."""


class ScriptedModel:
    """Serves chat completions, responses and messages; `requests` holds the bodies. After the script: 'done'.

    A number in the script is the status of an error.
    """

    def __init__(self, script: Sequence[Step | int] = ()) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._called: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The base url that an OpenAI client takes."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def tool_names(self, request: int = 0) -> list[str]:
        """The tools that reached the model in one request, in order."""
        tools = self.requests[request].get("tools") or []
        return [tool.get("function", tool).get("name") or tool.get("type", "") for tool in tools]

    def named_by_search(self, request: int = 0) -> set[str]:
        """The tools that the description of `find_tool` names, where they have no server."""
        tools = [tool.get("function", tool) for tool in self.requests[request].get("tools") or ()]
        described = [tool["description"] for tool in tools if tool.get("name") == "find_tool"]
        return {name for text in described for name in text.rpartition("Not in your list: ")[2].rstrip(".").split(", ")}

    def answer(self, body: dict[str, Any]) -> Step | int:
        """The next step of the script."""
        with self._lock:
            self.requests.append(body)
            if not self.script:
                return "done"
            return self.script.pop(0)

    def answered(self, body: dict[str, Any]) -> Answer | int:
        """The answer to a request; frameworks refuse a call id that they have seen."""
        step = self.answer(body)
        if isinstance(step, (str, int)):
            return step
        made = []
        with self._lock:
            for call in (step,) if isinstance(step, ScriptedCall) else step:
                self._called[call.name] += 1
                call_id = f"call_{call.name}"
                if self._called[call.name] > 1:
                    call_id += f"_{self._called[call.name]}"
                made.append((call_id, call))
        return made

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler_class(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            model.headers.append({name.lower(): value for name, value in self.headers.items()})
            step = model.answered(body)
            if isinstance(step, int):
                self.send_error(step)
            elif self.path.endswith("/responses"):
                self._reply(body, _response(step, body), _response_events(step, body))
            elif self.path.endswith("/chat/completions"):
                self._reply(body, _completion(step), _chunks(step))
            elif self.path.endswith("/messages"):
                self._reply(body, _anthropic(step), _anthropic_events(step))
            else:
                self.send_error(404)

        def do_GET(self) -> None:
            self._send_text("application/json", json.dumps({"object": "list", "data": [_SCRIPTED]}))

        def _reply(self, body: dict[str, Any], whole: dict[str, Any], events: list[dict[str, Any]]) -> None:
            """Answer as the request wants it: at once, or as a stream of events."""
            if body.get("stream"):
                self._send_text("text/event-stream", _written_events(events))
            else:
                self._send_text("application/json", json.dumps(whole))

        def _send_text(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _written_events(events: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for event in events:
        if "type" in event:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event)}\n\n")
    if events[0].get("object"):
        lines.append("data: [DONE]\n\n")
    return "".join(lines)


_SCRIPTED = {"id": "scripted", "object": "model"}
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_ANTHROPIC_USAGE = {"input_tokens": 1, "output_tokens": 1}


def _completion_message(step: Answer) -> dict[str, Any]:
    if isinstance(step, str):
        return {"role": "assistant", "content": step}
    made = [
        {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
        for call_id, call in step
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def _finish_reason(step: Answer) -> str:
    return "stop" if isinstance(step, str) else "tool_calls"


def _completion(step: Answer) -> dict[str, Any]:
    choice = {"index": 0, "message": _completion_message(step), "finish_reason": _finish_reason(step)}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted"}
    return {**head, "choices": [choice], "usage": _USAGE}


def _chunks(step: Answer) -> list[dict[str, Any]]:
    """As OpenAI streams: each call by itself, its arguments in pieces."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    said = _completion_message(step)
    deltas = [{key: value for key, value in said.items() if key != "tool_calls"}]
    for index, call in enumerate(said.get("tool_calls", [])):
        function = call["function"]
        text = function["arguments"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        middle = len(text) // 2
        pieces = [{"index": index, "function": {"arguments": piece}} for piece in (text[:middle], text[middle:])]
        deltas += [{"tool_calls": [piece]} for piece in pieces]
    last = {"index": 0, "delta": {}, "finish_reason": _finish_reason(step)}
    return [
        *({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas),
        {**head, "choices": [last], "usage": _USAGE},
    ]


def _response(step: Answer, body: dict[str, Any]) -> dict[str, Any]:
    if isinstance(step, str):
        content = [{"type": "output_text", "text": step, "annotations": []}]
        items: list[dict[str, Any]] = [
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
        ]
    else:
        items = [
            {
                "id": f"f{call_id}",
                "type": "function_call",
                "call_id": call_id,
                "name": call.name,
                "arguments": call.text,
                "status": "completed",
            }
            for call_id, call in step
        ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "scripted",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response_events(step: Answer, body: dict[str, Any]) -> list[dict[str, Any]]:
    whole = _response(step, body)
    begun = {"type": "response.created", "sequence_number": 0, "response": {**whole, "status": "in_progress"}}
    return [begun, {"type": "response.completed", "sequence_number": 1, "response": whole}]


def _anthropic(step: Answer) -> dict[str, Any]:
    if isinstance(step, str):
        blocks: list[dict[str, Any]] = [{"type": "text", "text": step}]
    else:
        blocks = [
            {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments} for call_id, call in step
        ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": blocks,
        "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
        "stop_sequence": None,
        "usage": _ANTHROPIC_USAGE,
    }


def _anthropic_events(step: Answer) -> list[dict[str, Any]]:
    whole = _anthropic(step)
    parts: list[dict[str, Any]] = []
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        parts += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        *parts,
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
