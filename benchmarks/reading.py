"""Reading OTLP as JSON and as protobuf: microseconds of processor a span, on one thread, from a file to the span table.

python benchmarks/reading.py                                   250 runs of an agent under each convention
python benchmarks/reading.py --json > results/reading.json     the same numbers as JSON
python benchmarks/reading.py --large 0 --check                 exit 1 where reading costs too much

Runs are made with a seed: an agent, 3 model calls that carry the conversation so far and the definitions of 12 tools, 4
tool calls; every second agent has a gate's decision on it. A line is an OTLP document of 64 spans, as the collector's
file exporter writes it; the same documents are there as messages of protobuf, and both also packed one by one. Beside
reading, the same file goes through `json.loads` line by line, or through protobuf's parser message by message, and
nothing else is done with it: that says how fast the machine was at the time. The small files hold a run each. The large
file is the first one over and over; one process reads it, then one a core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

SEED = 7
SPANS_A_LINE = 64
PER_RUN = 8
OFFERED = 12
TIMES = 12
TIMES_LARGE = 3
ASKED = 20.0
"""Microseconds that a span under the GenAI conventions may take, by what was asked for."""

LIMIT_BESIDE_PARSING = 5.0
"""The most that reading without text may take beside `json.loads` of the same file."""

LIMIT_BESIDE_ONE_FILE = 6.0
"""The most that small files may take a span beside one large file with the same spans."""

SENTENCE = "please find the order that customer wrote about last week and tell them when it will arrive today"
ID_NAMES = ("traceId", "spanId", "parentSpanId")
PROPERTIES = ("identifier", "reason", "limit", "language")


def tool(number: int) -> dict[str, Any]:
    """A definition of about 500 characters, as functions with docstrings give them."""
    properties = {name: {"type": "string", "description": f"The {name} of what is asked for."} for name in PROPERTIES}
    schema = {"type": "object", "properties": properties, "required": ["identifier"], "additionalProperties": False}
    said = f"Looks up number {number} in the archive and gives what stands there."
    return {"type": "function", "name": f"tool_{number}", "description": said, "parameters": schema}


CATALOGUE = [tool(number) for number in range(60)]


def said(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(SENTENCE.split(), k=words))


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def typed(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(typed, value))}}
    return {"stringValue": value}


def attributes(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": typed(value)} for key, value in told.items()]


def genai_run(rng: random.Random) -> Iterator[dict[str, Any]]:
    """The attributes of a run under the GenAI conventions: messages and definitions as JSON strings."""
    offered = rng.sample(CATALOGUE, OFFERED)
    called = rng.choices(offered, k=4)
    history = [
        message("system", {"type": "text", "content": said(rng, 60)}),
        message("user", {"type": "text", "content": said(rng, 25)}),
    ]
    model = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "some-model", "server.address": "127.0.0.1"}
    calls = []
    answers = []
    for number, each in enumerate(called):
        arguments = {"identifier": said(rng, 3), "reason": said(rng, 8)}
        answer = said(rng, 40)
        call_id = f"call_{rng.getrandbits(64):016x}"
        call = {"type": "tool_call", "id": call_id, "name": each["name"], "arguments": arguments}
        calls.append(message("assistant", call))
        answers.append(message("user", {"type": "tool_call_response", "id": call_id, "response": answer}))
        yield {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": each["name"],
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": answer,
            "logfire.msg": f"running tool: {each['name']}",
            "number": number,
        }
    for turn in range(3):
        yield {
            "gen_ai.operation.name": "chat",
            **model,
            "gen_ai.response.model": "some-model-2026",
            "gen_ai.response.id": f"resp-{rng.getrandbits(64):016x}",
            "gen_ai.response.finish_reasons": ["tool_call"],
            "gen_ai.tool.definitions": json.dumps(offered),
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([calls[turn]]),
            "gen_ai.usage.input_tokens": 1500 + 700 * turn,
            "gen_ai.usage.output_tokens": 80,
            "operation.cost": 0.0125,
        }
        history += [calls[turn], answers[turn]]
    yield {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.conversation.id": f"thread-{rng.randrange(1000)}",
        "model_name": "some-model",
        "pydantic_ai.all_messages": json.dumps(history),
        "final_result": said(rng, 30),
    }


def openinference_run(rng: random.Random) -> Iterator[dict[str, Any]]:
    """The same run as OpenInference's instrumentors write it: a flat attribute for each part of each message."""
    for told in genai_run(rng):
        if told["gen_ai.operation.name"] == "execute_tool":
            yield {
                "openinference.span.kind": "TOOL",
                "tool.name": told["gen_ai.tool.name"],
                "tool_call.id": told["gen_ai.tool.call.id"],
                "input.value": told["gen_ai.tool.call.arguments"],
                "output.value": told["gen_ai.tool.call.result"],
            }
        elif told["gen_ai.operation.name"] == "chat":
            found: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.model_name": "some-model"}
            for place, each in enumerate(json.loads(told["gen_ai.input.messages"])):
                found[f"llm.input_messages.{place}.message.role"] = each["role"]
                found[f"llm.input_messages.{place}.message.content"] = each["parts"][0].get("content", "")
            (call,) = json.loads(told["gen_ai.output.messages"])[0]["parts"]
            asked = "llm.output_messages.0.message.tool_calls.0.tool_call.function"
            found |= {f"{asked}.name": call["name"], f"{asked}.arguments": json.dumps(call["arguments"])}
            for place, each in enumerate(json.loads(told["gen_ai.tool.definitions"])):
                found[f"llm.tools.{place}.tool.json_schema"] = json.dumps(each)
            yield found | {
                "llm.token_count.prompt": told["gen_ai.usage.input_tokens"],
                "llm.token_count.completion": told["gen_ai.usage.output_tokens"],
                "input.value": told["gen_ai.input.messages"],
                "output.value": told["gen_ai.output.messages"],
            }
        else:
            asked = told["pydantic_ai.all_messages"]
            yield {"openinference.span.kind": "AGENT", "agent.name": "clerk", "input.value": asked, "session.id": "7"}


RUNS = {"genai": genai_run, "openinference": openinference_run}


def spans_of(run: Callable[[random.Random], Iterator[dict[str, Any]]], rng: random.Random) -> Iterator[dict[str, Any]]:
    """A run as the spans of a trace, its agent last, as spans are exported when they end."""
    trace = f"{rng.getrandbits(128):032x}"
    begun = 1_790_000_000_000_000_000 + rng.randrange(10**15)
    ids = [f"{rng.getrandbits(64):016x}" for _ in range(PER_RUN)]
    decided = {"camdf.ranking.names": [each["name"] for each in CATALOGUE[:OFFERED]], "camdf.explored": False}
    decided["camdf.ranking.scores"] = [round(rng.random(), 4) for _ in range(OFFERED)]
    for number, (span_id, told) in enumerate(zip(ids, run(rng), strict=True)):
        agent = number == PER_RUN - 1
        found = {
            "traceId": trace,
            "spanId": span_id,
            "parentSpanId": "" if agent else ids[-1],
            "flags": 256,
            "name": told.get("gen_ai.operation.name", "step"),
            "kind": 1,
            "startTimeUnixNano": str(begun + number * 10**9),
            "endTimeUnixNano": str(begun + (number + 2) * 10**9),
            "attributes": attributes(told),
            "status": {"code": 2, "message": "late"} if rng.random() < 0.05 else {},
        }
        if agent and rng.random() < 0.5:
            found["events"] = [
                {"timeUnixNano": str(begun), "name": "camdf.decision", "attributes": attributes(decided)}
            ]
        yield found


def document(spans: list[dict[str, Any]]) -> str:
    resource = {"attributes": attributes({"service.name": "desk", "telemetry.sdk.language": "python"})}
    scopes = [{"scope": {"name": "pydantic-ai", "version": "2"}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}, separators=(",", ":"))


def as_message(document: Any) -> bytes:
    """A document of OTLP JSON in protobuf."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    def with_ids(value: Any) -> Any:
        """Ids in base64, as protobuf's own JSON has them, and not in hex."""
        if isinstance(value, list):
            return list(map(with_ids, value))
        if not isinstance(value, dict):
            return value
        return {
            key: b64encode(bytes.fromhex(inner)).decode() if key in ID_NAMES else with_ids(inner)
            for key, inner in value.items()
        }

    message: bytes = ParseDict(with_ids(document), TracesData()).SerializeToString()
    return message


def framed(messages: Iterable[bytes], packed: bool = False) -> bytes:
    """Messages as the collector's file exporter writes them: the size of each, then the message, packed or not."""
    from pyarrow import compress

    some = [compress(message, "zstd", asbytes=True) if packed else message for message in messages]
    return b"".join(len(message).to_bytes(4) + message for message in some)


def generate(folder: Path, runs: int, small: int) -> dict[str, Path]:
    """A file of each convention, and a folder of small ones."""
    found = {name: folder / f"{name}.jsonl" for name in RUNS}
    for name, file in found.items():
        rng = random.Random(SEED)
        with file.open("w") as stream:
            waiting: list[dict[str, Any]] = []
            for number in range(runs):
                waiting += spans_of(RUNS[name], rng)
                if len(waiting) >= SPANS_A_LINE or number == runs - 1:
                    stream.write(document(waiting) + "\n")
                    waiting = []
    rng = random.Random(SEED)
    found["small files"] = folder / "small"
    found["small files"].mkdir()
    for number in range(small):
        (found["small files"] / f"{number:06}.jsonl").write_text(document(list(spans_of(genai_run, rng))) + "\n")
    return found


def processor(works: dict[Any, Callable[[], Any]]) -> dict[Any, float]:
    """The least processor time of each, of tries that take turns: whatever else runs only adds to it."""
    least = dict.fromkeys(works, math.inf)
    for _ in range(TIMES):
        for name, work in works.items():
            begun = time.process_time()
            work()
            least[name] = min(least[name], time.process_time() - begun)
    return least


def parse(file: Path) -> None:
    with file.open("rb") as stream:
        for line in stream:
            json.loads(line)


def parse_messages(file: Path) -> None:
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    with file.open("rb") as stream:
        while size := stream.read(4):
            TracesData.FromString(stream.read(int.from_bytes(size)))


def read(place: Path, with_text: bool) -> int:
    from camdf_traces.readers import read_spans

    return sum(1 for _ in read_spans(place, with_text=with_text))


def to_tables(place: Path) -> None:
    from camdf_traces.span_files import span_tables

    with span_tables(place):
        pass


def used() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    own = getrusage(RUSAGE_SELF)
    others = getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def side_by_side(file: Path, megabytes: int) -> dict[str, Any]:
    """The least seconds and processor seconds of one file, by one process and by one a core, which take turns."""
    from camdf_traces.span_files import span_tables

    large = file.with_name("large.jsonl")
    tries: dict[int, list[tuple[float, float]]] = {1: [], os.cpu_count() or 1: []}
    with large.open("wb") as stream:
        while stream.tell() < megabytes * 1e6:
            stream.write(file.read_bytes())
    for workers in list(tries) * TIMES_LARGE:
        begun = time.perf_counter()
        before = used()
        with span_tables(large, workers=workers):
            tries[workers].append((time.perf_counter() - begun, used() - before))
    names = "seconds", "processor seconds"
    least = {
        str(workers): {name: round(min(each), 1) for name, each in zip(names, zip(*found, strict=True), strict=True)}
        for workers, found in tries.items()
    }
    return {"megabytes": round(large.stat().st_size / 1e6), "load": round(os.getloadavg()[0], 1), "processes": least}


def by_form(name: str, file: Path) -> dict[str, Any]:
    """What a span takes in each form of the same export, in bytes and in microseconds; the forms take turns."""
    lines = file.read_bytes().splitlines()
    spans = read(file, with_text=False)
    messages = [as_message(json.loads(line)) for line in lines]
    forms = {
        name: file.read_bytes(),
        f"{name}, zstd": framed(lines, packed=True),
        f"{name} in protobuf": framed(messages),
        f"{name} in protobuf, zstd": framed(messages, packed=True),
    }
    files = {form: file.with_name(f"{form}.jsonl") for form in forms}
    for form, content in forms.items():
        files[form].write_bytes(content)
    steps: dict[tuple[str, str], Callable[[], Any]] = {
        (name, "json.loads alone"): partial(parse, file),
        (f"{name} in protobuf", "its parser alone"): partial(parse_messages, files[f"{name} in protobuf"]),
    }
    for form, place in files.items():
        steps |= {
            (form, "read"): partial(read, place, False),
            (form, "read with text"): partial(read, place, True),
            (form, "read into span tables"): partial(to_tables, place),
        }
    took = processor(steps)
    return {
        form: {
            "spans": spans,
            "bytes a span": len(content) // spans,
            **{step: round(took[form, step] / spans * 1e6, 1) for of, step in steps if of == form},
        }
        for form, content in forms.items()
    }


def measure(runs: int, small: int, large: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="camdf-reading-") as scratch:
        places = generate(Path(scratch), runs, small)
        for name in RUNS:
            found |= by_form(name, places[name])
        spans = small * PER_RUN
        took_small = processor({"small": partial(to_tables, places["small files"])})["small"]
        found["small files"] = {
            "files": small,
            "spans": spans,
            "read into span tables": round(took_small / spans * 1e6, 1),
        }
        if large:
            found["large file"] = side_by_side(places["genai"], large)
    machine = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    return {
        "machine": machine,
        "load": round(os.getloadavg()[0], 1),
        "microseconds of processor a span, asked": ASKED,
        **found,
    }


def missed(found: dict[str, Any]) -> list[str]:
    """The limits that were passed."""
    genai = found["genai"]
    small = found["small files"]
    beside = genai["read"] / genai["json.loads alone"]
    times = small["read into span tables"] / genai["read into span tables"]
    lines = []
    if beside > LIMIT_BESIDE_PARSING:
        lines.append(f"reading takes {beside:.1f} times as long as json.loads, at most {LIMIT_BESIDE_PARSING}")
    if times > LIMIT_BESIDE_ONE_FILE:
        lines.append(f"small files take {times:.1f} times as long as one file, at most {LIMIT_BESIDE_ONE_FILE}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=250, help="runs in each file (default: 250)")
    parser.add_argument("--small", type=int, default=250, help="how many small files (default: 250)")
    parser.add_argument("--large", type=int, default=200, help="megabytes of the large file, 0 for none (default: 200)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    options = parser.parse_args()
    found = measure(options.runs, options.small, options.large)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, value in found.items():
            print(f"{name}: {value}")
    problems = missed(found)
    for line in problems:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if problems and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
