"""The service under load, side by side with a bare endpoint of the same stack, and through a thousand swaps.

python benchmarks/service.py load --json results/service.json       about two minutes; needs wrk
python benchmarks/service.py profile --json results/service.json    what a decision's time is spent on; seconds
python benchmarks/service.py tenants --json results/service.json    one tenant's crowds, and another's waits; minutes
python benchmarks/service.py swaps --json results/service.json      1,000 swaps under load; some minutes
python benchmarks/service.py soak --json results/service.json       ten minutes of load, and what the process holds
python benchmarks/service.py page results/service.json              writes what is stored into docs/service.md and
                                                                    docs/production.md
python benchmarks/service.py check results/service.json             whether what is stored meets its limits

Machines are shared, so all that is compared is measured in turns; read the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import math
import os
import pstats
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import camdf
from camdf.gate import Gate
from camdf.gate.deciding import Decider
from camdf.gate.fold import Folding
from camdf.gate.request import RequestReader
from camdf.gate.scoring import TurnScores
from camdf.service.app import Service
from camdf.service.deciding import Deciding
from camdf.service.gates import Costs, candidate
from camdf.service.outcomes import OutcomeLog
from camdf.service.store import VersionStore

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "parts"), str(ROOT / "tests" / "service")]

from test_service_reload import VERSIONS, Load, expected, publish, serves  # noqa: E402

from neighbors import ALONE, BEYOND, CROWDS, compared  # noqa: E402
from neighbors import CONFIGURATION as TENANTS  # noqa: E402
from running_service import Running, eventually, folder_of, running  # noqa: E402

TOOLS = 20
TALKED = 40
WAITING = 64
SCORES = {f"tool_{i}": round((i * 37 % 101) / 101, 3) for i in range(TOOLS)}
RANKING = [{"name": name, "score": score, "cost": 1.0} for name, score in SCORES.items()]
BODY = json.dumps({"ranking": RANKING})
EACH_ITS_OWN = """
local count, all = os.time() * 1000000, wrk.body
request = function()
  count = count + 1
  return wrk.format(nil, nil, nil, (all:gsub("NUMBER", string.format("%d", count))))
end
"""
"""Of wrk: no two requests say the same, so that none is answered from what an earlier one left behind."""

TALK = json.dumps(
    {
        "messages": [{"role": "user", "content": "Find the weather in Oslo and mail the forecast to colleague NUMBER"}],
        "tools": [
            {
                "name": name,
                "description": f"Number {i}, which does the {('weather', 'mail to colleagues', 'music')[i % 3]}.",
                "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}},
            }
            for i, name in enumerate(f"tool_{i}" for i in range(TALKED))
        ],
    }
)
HEAD = ("POST /v1/decide HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(BODY)}")
REQUEST = "\r\n".join([*HEAD, "", BODY]).encode()
LENGTH = re.compile(rb"content-length: (\d+)")
Served: TypeAlias = tuple[str, int]
"""Where something listens, and the number of its process."""

BATCH = 32
TURNS = 800
"""How often the service, the bare endpoints and the decision are timed in turns."""

POLICY = ROOT / "tests" / "parts" / "golden-policy.json"
LIMITS = {
    "one by one: request / (bare endpoint + decision)": 1.15,
    "32 connections: bare requests a second / requests a second": 6.0,
    "32 connections: p99 / median": 4.0,
    "overload: admitted p99 / p99 at capacity": 1.5,
}
"""What was asked for, at most."""

RUDE = "overload by clients that come back at once: admitted p99, microseconds"
FIGURES = "<!-- {0} -->.*<!-- end of {0} -->"
"""Where they stand on the page."""

BUSY = 0.6
"""Of what one copy can take, what it should be given: the rest is for a copy that dies and for a busy minute."""

CONFIGURATION = f"""{ALONE}
[limits]
waiting = {WAITING}
"""

BARE = """
import sys
import msgspec, uvicorn
from camdf.service.shapes import DecideRequest
decoder = msgspec.json.Decoder(DecideRequest | list[DecideRequest])
answer = b" " * int(sys.argv[1])
gate = None
if len(sys.argv) > 2:
    import camdf
    from camdf.gate import Gate
    from camdf.service.gates import Costs, candidate
    gate = Gate(camdf.load(sys.argv[2]), None, camdf.Payoff(0.06), prices=Costs(None))
headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
async def app(scope, receive, send):
    message = await receive()
    body = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    asked = decoder.decode(body)
    if gate is not None:
        tools = [candidate(each.name, each.cost) for each in asked.ranking]
        gate.decide_scored("a task", tools, [each.score for each in asked.ranking])
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)
config = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False)
Server(config).run()
"""


@contextmanager
def bare(answer_bytes: int, *policy: Path) -> Iterator[Served]:
    """An endpoint of the same stack that reads the same body into the same type, and answers with a constant.

    With a policy it also decides, and throws the decision away.
    """
    command = [sys.executable, "-c", BARE, str(answer_bytes), *map(str, policy)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def wrk(served: Served, connections: int, seconds: int, body: str = BODY) -> dict[str, float]:
    """Median, 99th percentile and processor time of a request in microseconds, and requests a second."""
    url, process = served
    used = processor_time(process)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(
            f"wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = [=[{body}]=]\n"
            + (EACH_ITS_OWN if "NUMBER" in body else "")
        )
        script.flush()
        options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script.name]
        run = subprocess.run(["wrk", *options, f"{url}/v1/decide"], capture_output=True, text=True, check=True)
    assert "Non-2xx" not in run.stdout, run.stdout
    units = {"us": 1.0, "ms": 1e3, "s": 1e6}
    times = {
        share: float(time) * units[unit] for share, time, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s)", run.stdout)
    }
    (rate,) = re.findall(r"Requests/sec:\s+([\d.]+)", run.stdout)
    (requests,) = re.findall(r"(\d+) requests in", run.stdout)
    processor = (processor_time(process) - used) / int(requests)
    return {"median": times["50"], "p99": times["99"], "rate": float(rate), "processor": processor}


def processor_time(process: int) -> float:
    """Microseconds that a process has had of the processors so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


class Caller:
    """One connection on which requests are sent one by one, and what each took and used."""

    def __init__(self, url: str, process: int) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._process = process
        self._began = processor_time(process)
        self.times = list[float]()

    def ask(self) -> None:
        start = time.perf_counter()
        self._socket.sendall(REQUEST)
        received = self._socket.recv(65536)
        while len(received) < received.find(b"\r\n\r\n") + 4 + int(LENGTH.findall(received)[0]):
            received += self._socket.recv(65536)
        self.times.append(time.perf_counter() - start)
        assert received.startswith(b"HTTP/1.1 200"), received

    def ended(self) -> float:
        """Processor time of a request, in microseconds."""
        self._socket.close()
        return (processor_time(self._process) - self._began) / len(self.times)


def one_by_one(ours: Served, other: Served, deciding: Served) -> dict[str, float]:
    """A request to each and a decision without any server, in turns, so that a busy moment hits all of them.

    Times are those that a tenth of the turns stay below: what they take where no other program is in the way.
    """
    policy = camdf.load(POLICY)
    gate = Gate(policy, None, camdf.Payoff(0.06), prices=Costs(None))
    tools = [candidate(name, 1.0) for name in SCORES]
    given = list(SCORES.values())
    callers = [Caller(*each) for each in (ours, other, deciding)]
    whole = list[float]()
    alone = list[float]()
    for _ in range(TURNS):
        for caller in callers:
            caller.ask()
        start = time.perf_counter()
        gate.decide_scored("a task", tools, given)
        middle = time.perf_counter()
        policy.decide(camdf.Rankings.from_scores(SCORES), gate.payoff)
        whole.append(middle - start)
        alone.append(time.perf_counter() - middle)
    request, floor, decided = (calm(caller.times) for caller in callers)
    used, _, used_deciding = (caller.ended() for caller in callers)
    return {
        "request, microseconds": request,
        "bare endpoint, microseconds": floor,
        "bare endpoint that decides, microseconds": decided,
        "decision of the gate, microseconds": calm(whole),
        "decision of the policy alone, microseconds": calm(alone),
        "request / (bare endpoint + decision)": request / (floor + calm(whole)),
        "request / bare endpoint that decides": request / decided,
        "processor time of a request / of a bare endpoint that decides": used / used_deciding,
    }


def calm(times: list[float]) -> float:
    """What a tenth of the times stay below, in microseconds."""
    return statistics.quantiles(times, n=10)[0] * 1e6


def load(seconds: int, rounds: int) -> dict[str, Any]:
    """Everything that is asked of one process under load."""
    with tempfile.TemporaryDirectory() as place, running(folder_of(Path(place) / "served", CONFIGURATION)) as service:
        ours = service.url, service.process.pid
        answer = json.dumps(service.decide(json.loads(BODY)), separators=(",", ":"))
        with bare(len(answer)) as other, bare(len(answer), POLICY) as deciding:
            alone = one_by_one(ours, other, deciding)
            many = [(wrk(ours, 32, seconds), wrk(other, 32, seconds)) for _ in range(rounds)]
            talks = [(wrk(ours, 32, seconds, TALK), wrk(other, 32, seconds, TALK)) for _ in range(rounds)]
            batch = wrk(ours, 1, seconds, f"[{', '.join([BODY] * BATCH)}]")
        found = {
            "tools in a ranking": TOOLS,
            **{f"one by one: {name}": value for name, value in alone.items()},
            **under_load("32 connections", many),
            f"lists of {BATCH}: decisions a second": batch["rate"] * BATCH,
            f"lists of {BATCH}: processor time of a decision, microseconds": batch["processor"] / BATCH,
            "tools of a conversation": TALKED,
            **under_load("conversations", talks),
        }
        return found | overload(service, seconds, rounds)


def under_load(name: str, turns: list[tuple[dict[str, float], dict[str, float]]]) -> dict[str, float]:
    """The service and a bare endpoint, measured in turns; the best turn of each figure, as others load the machine."""
    ours = [one for one, _ in turns]
    bare = [other for _, other in turns]
    even = min(ours, key=lambda each: each["p99"] / each["median"])
    rate = max(each["rate"] for each in ours)
    most = max(each["rate"] for each in bare)
    used = min(each["processor"] for each in ours)
    least = min(each["processor"] for each in bare)
    found = {
        "median, microseconds": even["median"],
        "p99, microseconds": even["p99"],
        "p99 / median": even["p99"] / even["median"],
        "requests a second": rate,
        "bare requests a second": most,
        "bare requests a second / requests a second": most / rate,
        "processor time of a request, microseconds": used,
        "processor time of a request / of a bare one": used / least,
    }
    return {f"{name}: {what}": value for what, value in found.items()}


def overload(service: Running, seconds: int, rounds: int) -> dict[str, Any]:
    """As many connections as may be under way, then four times as many, which come back when they are told to."""
    at = []
    over = []
    over_rude = []
    for _ in range(rounds):
        at.append(clients(service.port, WAITING, seconds, polite=True))
        over.append(clients(service.port, 4 * WAITING, seconds, polite=True))
    over_rude.append(clients(service.port, 4 * WAITING, seconds, polite=False))
    pairs = [(one["p99"], other["p99"]) for one, other in zip(at, over, strict=True)]
    quiet, loud = min(pairs, key=lambda pair: pair[1] / pair[0])
    return {
        "overload: p99 at capacity, microseconds": quiet,
        "overload: admitted p99 at four times capacity, microseconds": loud,
        "overload: admitted p99 / p99 at capacity": loud / quiet,
        "overload: admitted, and told to come back": [over[-1]["admitted"], over[-1]["refused"]],
        "overload: failed": sum(each["failed"] for each in (*at, *over, *over_rude)),
        RUDE: over_rude[-1]["p99"],
    }


def clients(port: int, connections: int, seconds: float, *, polite: bool) -> dict[str, Any]:
    """Clients on one event loop, each on a connection of its own; times of what was admitted."""
    times = list[float]()
    counts = Counter[str]()
    ends = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < ends:
            start = time.perf_counter()
            writer.write(REQUEST)
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                (length,) = LENGTH.findall(head)
                await reader.readexactly(int(length))
            except (OSError, asyncio.IncompleteReadError):
                counts["failed"] += 1
                break
            if head.startswith(b"HTTP/1.1 200"):
                counts["admitted"] += 1
                times.append(time.perf_counter() - start)
            elif head.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in head:
                counts["refused"] += 1
                await asyncio.sleep(1.0 if polite else 0.0)
            else:
                counts["failed"] += 1
        writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(client() for _ in range(connections)))

    asyncio.run(all_of_them())
    times.sort()
    return {
        "p99": times[int(len(times) * 0.99)] * 1e6,
        **{name: counts[name] for name in ("admitted", "refused", "failed")},
    }


COSTS = {
    "the body is parsed and checked": Deciding.read,
    "the gate reads the tools, its guards and the scores": RequestReader.read,
    "the policy ranks and decides, once for a slice": TurnScores.rank_together,
    "the gate folds the turns": Folding.by_judges,
    "the decision is put together and counted": Decider.answered,
    "the answer is written": Deciding._answer_written,
}
"""Functions of which none calls another."""


def profile(rounds: int) -> dict[str, Any]:
    """Shares of what the application does for 32 requests at a time, by cProfile, without what uvicorn does."""
    profiler = cProfile.Profile()
    sent = list[int]()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "path": "/v1/decide", "method": "POST", "headers": headers}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY.encode(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("status", 200))

    async def all_of_them(service: Service) -> None:
        for number in range(rounds):
            if number == rounds // 10:  # the first ones fill caches
                profiler.enable()
            await asyncio.gather(*(service(scope, receive, send) for _ in range(32)))
        profiler.disable()

    with tempfile.TemporaryDirectory() as place:
        folder = folder_of(Path(place) / "served", CONFIGURATION)
        (state := Path(place) / "state").mkdir()
        outcomes = OutcomeLog(state)
        asyncio.run(all_of_them(Service(VersionStore(folder / "camdf.toml", state), outcomes)))
        outcomes.close()
    assert set(sent) == {200}
    took = {entry.code: entry.totaltime for entry in profiler.getstats()}
    total = pstats.Stats(profiler).total_tt  # type: ignore[attr-defined]
    found = {name: took[function.__code__] / total for name, function in COSTS.items()}
    return dict(sorted(found.items(), key=lambda pair: -pair[1])) | {"all else": 1 - sum(found.values())}


def tenants(rounds: int) -> dict[str, Any]:
    """Each crowd of one tenant, and how long another waits meanwhile."""
    stored = {}
    with tempfile.TemporaryDirectory() as place, running(folder_of(Path(place) / "served", TENANTS)) as service:
        for name in CROWDS | BEYOND:
            *_, found = islice(compared(service, name, 2.0), rounds)
            stored[name] = {
                "p99 alone, microseconds": found.alone * 1e6,
                "p99 crowded, microseconds": found.crowded * 1e6,
                "crowded / alone": found.times,
                "answers to the one that waits": {str(status): count for status, count in found.south.items()},
                "answers to the crowd": dict(found.north),
            }
            print(f"{name}: {found.times:.2f}", file=sys.stderr)
    return stored


def swaps(count: int) -> dict[str, Any]:
    """So many versions published under load, every fifth after one that is torn in the middle."""
    with tempfile.TemporaryDirectory() as place:
        folder = folder_of(Path(place) / "served")
        publish(folder, "top-1")
        names = list(VERSIONS)
        with running(folder) as service, Load(service) as clients_:
            for number in range(1, count + 1):
                if number % 5 == 0:
                    (folder / "camdf.toml").write_text("[gate]\npolicy = ", encoding="utf-8")
                    eventually(lambda: bool(service.ask("/v1/policy").body["refused"]))
                name = names[number % 3]
                publish(folder, name)
                eventually(lambda name=name: serves(service, name))  # type: ignore[misc]
                if number % 100 == 0:
                    print(f"{number} swaps, {clients_.seen.total()} decisions", file=sys.stderr)
            told = {"swaps": int(service.number("camdf_swaps")), "refused": int(service.number("camdf_refusals"))}
        mixed = sum(number for key, number in clients_.seen.items() if key not in expected())
        mixed += sum(len(digests) - 1 for digests in clients_.digests.values())
        return told | {"decisions": clients_.seen.total(), "failed": len(clients_.failed), "mixed": mixed}


def soak(seconds: int) -> dict[str, Any]:
    """Load for so long, and every tenth of it a look at what the process holds."""
    looks = []
    with tempfile.TemporaryDirectory() as place, running(folder_of(Path(place) / "served", CONFIGURATION)) as service:
        for number in range(10):
            wrk((service.url, service.process.pid), 8, max(seconds // 10, 1))
            status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="utf-8")
            kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            threads = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Threads"))
            descriptors = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
            looks.append({"mb": kilobytes / 1024, "threads": threads, "descriptors": descriptors})
            print(f"{number + 1} of 10: {json.dumps(looks[-1])}", file=sys.stderr)
        decided = service.number('camdf_decisions_total{mode="drop",reason="decided"}')
    return {"seconds": seconds, "decisions": int(decided), "looks": looks}


def figures(stored: dict[str, Any]) -> str:
    """What is stored, as the table of docs/service.md."""
    load, crowds, swaps, soak = (stored[name] for name in ("load", "tenants", "swaps", "soak"))
    first = soak["looks"][0]
    last = soak["looks"][-1]
    sizes = f"{first['mb']:.0f} to {last['mb']:.0f} MB, {first['descriptors']} to {last['descriptors']} open files"
    one_by_one = (
        "one by one: a request over a bare endpoint that decides; over the bare endpoint's time plus the decision's; "
        "in processor time"
    )
    by_one = (
        "request / bare endpoint that decides",
        "request / (bare endpoint + decision)",
        "processor time of a request / of a bare endpoint that decides",
    )
    rows = [
        (one_by_one, "1.15; 1.15", "; ".join(f"{load[f'one by one: {name}']:.2f}" for name in by_one)),
        *(
            row
            for what, name, share, even in (
                (f"rankings of {TOOLS}", "32 connections", "6", "4"),
                (f"conversations with {TALKED} tools, each its own text", "conversations", "", ""),
            )
            for row in (
                (
                    f"{what}, 32 connections: requests a second, and the bare endpoint's",
                    "",
                    f"{load[f'{name}: requests a second']:,.0f}, {load[f'{name}: bare requests a second']:,.0f}",
                ),
                (
                    "how many times as many the bare endpoint takes; in processor time",
                    share,
                    f"{load[f'{name}: bare requests a second / requests a second']:.1f}; "
                    f"{load[f'{name}: processor time of a request / of a bare one']:.1f}",
                ),
                (
                    "p99, and over the median",
                    even,
                    f"{load[f'{name}: p99, microseconds'] / 1e3:.0f} ms, {load[f'{name}: p99 / median']:.2f}",
                ),
            )
        ),
        (
            "four times as many clients as may be under way: p99 of those let in, over p99 at capacity; the same with "
            "clients that do not wait as they are told",
            "1.5; none",
            f"{load['overload: admitted p99 / p99 at capacity']:.2f}; "
            f"{load[RUDE] / load['overload: p99 at capacity, microseconds']:.1f}",
        ),
        (
            f"{swaps['swaps']:,} swaps and {swaps['refused']:,} refused versions under load: failed, mixed",
            "0",
            f"{swaps['failed']}, {swaps['mixed']} of {swaps['decisions']:,}",
        ),
        *(
            (
                f"{'p99 of one tenant over p99 alone, while another sends ' if number == 0 else '... '}{name}",
                "3",
                f"{crowd['crowded / alone']:.1f}",
            )
            for number, (name, crowd) in enumerate(crowds.items())
        ),
        (f"{soak['seconds'] // 60} minutes of load, {soak['decisions']:,} decisions", "flat", sizes),
    ]
    return "\n".join(
        ["| what | asked, at most | measured |", "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def copies(stored: dict[str, Any]) -> str:
    """How many copies what load takes, as the table of docs/production.md."""
    load = stored["load"]
    looks = stored["soak"]["looks"]
    rate = load["32 connections: requests a second"]
    megabytes = max(look["mb"] for look in looks)
    rows = ["| decisions a second | copies, and cores | memory of all |", "| --- | --- | --- |"]
    for wanted in (100, 1_000, 10_000, 100_000, 1_000_000):
        count = max(2, math.ceil(wanted / (rate * BUSY)))
        rows.append(f"| {wanted:,} | {count:,} | {count * megabytes / 1024:.1f} GB |")
    return "\n".join(rows)


def show(page: Path, table: str, name: str = "figures") -> None:
    """Write a table into a page."""
    shown = f"<!-- {name} -->\n{table}\n<!-- end of {name} -->"
    place = re.compile(FIGURES.format(name), flags=re.S)
    page.write_text(place.sub(lambda _: shown, page.read_text("utf-8")), encoding="utf-8")


def missed(stored: dict[str, Any]) -> list[str]:
    """What is stored and does not hold."""
    problems = [
        f"{name} is {stored['load'][name]:.2f}, and {limit} was asked for"
        for name, limit in LIMITS.items()
        if "load" in stored and stored["load"][name] > limit
    ]
    found = stored.get("swaps", {"failed": 0, "mixed": 0, "swaps": 1000})
    if found["failed"] or found["mixed"] or found["swaps"] < 1000:
        problems.append(f"swaps: {found}")
    if "soak" in stored:
        first = stored["soak"]["looks"][0]
        last = stored["soak"]["looks"][-1]
        problems += [
            f"soak: {name} grew from {first[name]} to {last[name]}"
            for name in first
            if last[name] > 1.1 * first[name] + 4
        ]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    for name, what, usual in (
        ("load", "--seconds", 3),
        ("profile", "--rounds", 300),
        ("tenants", "--rounds", 6),
        ("swaps", "--count", 1000),
        ("soak", "--seconds", 600),
    ):
        command = commands.add_parser(name)
        command.add_argument(what, type=int, default=usual)
        command.add_argument("--json", type=Path, help="where to store what was measured")
        if name == "load":
            command.add_argument("--rounds", type=int, default=4)
    for name in ("page", "check"):
        commands.add_parser(name).add_argument("stored", type=Path)
    options = parser.parse_args()
    if options.command == "check":
        problems = missed(json.loads(options.stored.read_text(encoding="utf-8")))
        print("\n".join(problems) or "Everything stored holds.")
        return 1 if problems else 0
    if options.command == "page":
        stored = json.loads(options.stored.read_text(encoding="utf-8"))
        show(ROOT / "docs" / "service.md", figures(stored))
        show(ROOT / "docs" / "production.md", copies(stored))
        return 0
    measures = {
        "load": lambda: load(options.seconds, options.rounds),
        "profile": lambda: profile(options.rounds),
        "tenants": lambda: tenants(options.rounds),
        "swaps": lambda: swaps(options.count),
        "soak": lambda: soak(options.seconds),
    }
    found = measures[options.command]()
    print(json.dumps(found, indent=1))
    if options.json:
        stored = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        stored[options.command] = found
        options.json.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
