"""Use the installed wheel as a stranger would, with numpy alone: decide, save, load, and see what fitting asks for."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import camdf
from camdf import datasets
from camdf.checks import check_policy
from camdf.gate import Gate
from camdf.scorers import BM25

installed = {d.metadata["Name"].lower() for d in distributions()}
assert installed <= {"camdf", "numpy", "pip", "setuptools"}, installed

payoff = camdf.Payoff(cost_pressure=0.12)
logged = datasets.sample()
policy = camdf.ScorePerCostThreshold().fit(logged, payoff)
path = Path(tempfile.mkdtemp()) / "policy.json"
camdf.save(policy, path)
loaded = camdf.load(path)
decided = loaded.decide(logged.rankings, payoff)
assert (decided.acquired == policy.decide(logged.rankings, payoff).acquired).all()
check_policy(camdf.PlugIn)

for extra, use in {"train": lambda: camdf.CAMDF().fit(logged, payoff), "bm25": BM25}.items():
    try:
        use()
    except camdf.MissingExtraError as error:
        assert f"camdf[{extra}]" in str(error)
    else:
        raise AssertionError(f"what needs camdf[{extra}] must name it")

tools = [{"name": name, "description": name, "input_schema": {}} for name in ("search", "mail", "maps")]
gate = Gate(camdf.cold_start(), lambda task, offered: [0.9, 0.1, 0.05], payoff)
assert gate.decide("find it", tools).kept == ("search",)
failed = Gate(camdf.cold_start(), lambda task, offered: 1 / 0, payoff).decide("find it", tools)
assert (failed.reason, failed.error, failed.tools) == ("scorer failed", "ZeroDivisionError", tools)

with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = wheel.namelist()
assert "camdf/py.typed" in names
assert not [name for name in names if name.endswith(".pth") or not name.startswith("camdf")], names
size = Path(sys.argv[1]).stat().st_size
assert size < 750_000, size
print(f"wheel works: {len(logged)} tasks, {decided.acquired.sum(axis=1).mean():.2f} of 7 tools kept, {size} bytes")
