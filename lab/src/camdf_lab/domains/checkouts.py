"""Request texts and tool descriptions of three domains, from checkouts of the benchmarks that you name: none ship.

Two layouts are understood: a checkout of tau-bench (retail) and one of tau2-bench (airline, telecom). Checkouts are
parsed and never executed. Their readers are tested on small hand-made fixtures of the same layout, not on the checkouts
themselves.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from camdf.datasets.texts import TaskText, Texts
from camdf.errors import DataError, UsageError
from camdf_lab.domains.catalogue import find
from camdf_lab.domains.shipped import labels, tools

TAU2_TEXT = {
    "airline": ("reason_for_call", "known_info", "unknown_info", "task_instructions"),
    "telecom": ("reason_for_call", "known_info"),
}
"""The parts of a tau2-bench instruction that make up the request, in this order, parted by a space."""


def texts_from_tau_bench(checkout: str | PathLike[str]) -> Texts:
    """The retail texts from a checkout of tau-bench: the whole instruction to the simulated customer.

    Reads `tau_bench/envs/retail/tasks_test.py`, where task retail-007 is the eighth entry of TASKS_TEST, and the
    `get_info` of every tool in `tau_bench/envs/retail/tools`.
    """
    retail = Path(checkout) / "tau_bench" / "envs" / "retail"
    path = retail / "tasks_test.py"
    requests = {f"retail-{i:03d}": request for i, request in enumerate(_tau_requests(path))}
    described = dict(tool for file in sorted((retail / "tools").glob("*.py")) for tool in _tau_tools(file))
    return _aligned("retail", requests, described, Path(checkout))


def texts_from_tau2_bench(checkout: str | PathLike[str], domain: str) -> Texts:
    """The airline or telecom texts from a checkout of tau2-bench.

    Reads `data/tau2/domains/DOMAIN/tasks.json` and the docstrings, up to their arguments, of the tools in
    `src/tau2/domains/DOMAIN`. Task airline-7 has the id "7" there; task telecom-007 is the eighth of the train and test
    ids, in this order, of `split_tasks.json`. A telecom id spells out the injected faults, so it is not kept.
    """
    if domain not in TAU2_TEXT:
        raise UsageError(f"The 'domain' of tau2-bench must be one of {', '.join(TAU2_TEXT)}. Got {domain!r} instead.")
    folder = Path(checkout) / "data" / "tau2" / "domains" / domain
    path = folder / "tasks.json"
    try:
        texts = {task["id"]: _instructions(task, TAU2_TEXT[domain]) for task in _read_json(path)}
        if domain == "telecom":
            splits = _read_json(folder / "split_tasks.json")
            ordered = [*splits["train"], *splits["test"]]
            requests = {f"telecom-{i:03d}": texts[key] for i, key in enumerate(ordered)}
        else:
            requests = {f"airline-{key}": value for key, value in texts.items()}
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path}: must have the layout of {find(domain).source}, and has not: {error!r}. Check out that commit."
        ) from None
    code = Path(checkout) / "src" / "tau2" / "domains" / domain
    described = dict(tool for name in ("tools.py", "user_tools.py") for tool in _tau2_tools(code / name))
    return _aligned(domain, requests, described, Path(checkout))


def _instructions(task: Mapping[str, Any], parts: Sequence[str]) -> str:
    """The parts of a task's instructions that are not empty, in one line."""
    said = task["user_scenario"]["instructions"]
    return " ".join(said[part] for part in parts if said[part])


def _aligned(domain: str, requests: Mapping[str, str], described: Mapping[str, str], checkout: Path) -> Texts:
    """The texts of exactly the tasks and tools that ship."""
    ids = [label["task_id"] for label in labels(domain)]
    catalogue = tools(domain)
    missing = [name for name in ids if name not in requests] + [name for name in catalogue if name not in described]
    if missing:
        raise DataError(
            f"{checkout}: must hold every task and tool of {domain}, and lacks {', '.join(missing[:5])}. "
            f"Check out {find(domain).source} from {find(domain).url}."
        )
    tasks = tuple(TaskText(task_id, requests[task_id], catalogue) for task_id in ids)
    return Texts(tasks, {name: described[name] for name in catalogue})


def _tau_requests(path: Path) -> Iterator[str]:
    """The instruction of every entry of TASKS_TEST."""
    for node in _parsed_python(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "TASKS_TEST" for t in node.targets):
            entries = node.value.elts if isinstance(node.value, ast.List) else []
            for call in entries:
                instruction = _keyword(call, "instruction")
                if not (isinstance(instruction, ast.Constant) and isinstance(instruction.value, str)):
                    raise DataError(
                        f"{path}, line {call.lineno}, field 'instruction': must be a literal string. "
                        "Check out tau-bench as published."
                    )
                yield instruction.value
            return
    raise DataError(f"{path}: must assign a list to TASKS_TEST, and does not. Check out tau-bench as published.")


def _keyword(call: ast.expr, name: str) -> ast.expr | None:
    """What a call is given under a name, if it is a call and has that name."""
    if not isinstance(call, ast.Call):
        return None
    return next((given.value for given in call.keywords if given.arg == name), None)


def _tau_tools(path: Path) -> Iterator[tuple[str, str]]:
    """Name and description that every `get_info` in a file returns."""
    for node in ast.walk(_parsed_python(path)):
        if isinstance(node, ast.FunctionDef) and node.name == "get_info":
            try:
                returned = next(part.value for part in node.body if isinstance(part, ast.Return) and part.value)
                info = ast.literal_eval(returned)["function"]
                yield info["name"], info["description"]
            except (KeyError, StopIteration, TypeError, ValueError):
                raise DataError(
                    f"{path}, line {node.lineno}: must return a literal with the tool's name and description. "
                    "Check out tau-bench as published."
                ) from None


def _tau2_tools(path: Path) -> Iterator[tuple[str, str]]:
    """Name and docstring, up to its arguments and in one line, of every method marked as a tool."""
    if not path.exists():
        return
    for node in ast.walk(_parsed_python(path)):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "is_tool"
            for mark in node.decorator_list
        ):
            yield node.name, " ".join((ast.get_docstring(node) or "").split("Args:")[0].split())


def _parsed_python(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{path}: must be Python source. {error}. Check the file out again.") from None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: must be JSON in UTF-8. {error}. Fetch the file again.") from None
