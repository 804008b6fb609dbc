"""Every promise and threat that SECURITY.md names has a test that exists, and what can be read off the code is."""

from __future__ import annotations

import ast
import re
import tomllib
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from camdf.service import limits
from camdf.service.limits import RefusedError, check_depth, tenant_of

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "src" / "camdf" / "service"
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "subprocess"}


def known() -> set[str]:
    texts = (file.read_text("utf-8") for file in ROOT.glob("tests/**/test_*.py"))
    return {name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)", text, flags=re.M)}


def test_every_promise_and_threat_names_a_test_that_is_there() -> None:
    rows = re.findall(r"^\| (?!promise|threat|---)(.+) \|$", (ROOT / "SECURITY.md").read_text("utf-8"), flags=re.M)
    assert len(rows) >= 35
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.split(" | ")[-1])
        assert named, row
        assert set(named) <= known(), row


def test_what_the_service_needs_is_locked_by_hash() -> None:
    lines = (ROOT / "deploy" / "requirements.txt").read_text("utf-8").replace("\\\n", " ").splitlines()
    locked: dict[str, str] = {}
    for line in lines:
        if not line.startswith("#"):
            found = re.fullmatch(r"([\w-]+)==(\S+)(?:\s+--hash=sha256:[0-9a-f]{64})+\s*", line)
            assert found, line[:60]
            locked[canonicalize_name(found[1])] = found[2]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    needed = [Requirement(each) for extra in ("serve", "bm25") for each in extras[extra]]
    for each in needed:
        if each.name != "camdf":
            assert each.specifier.contains(locked[canonicalize_name(each.name)]), each
    assert "numpy" in locked


def test_nothing_in_the_service_unpickles_or_evaluates() -> None:
    for file in SERVICE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not {each.name.split(".")[0] for each in node.names} & FORBIDDEN, file.name
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in FORBIDDEN, file.name
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, file.name


def test_tokens_are_compared_in_constant_time_by_their_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def watched(one: str, other: str) -> bool:
        compared.append((one, other))
        return compare_digest(one, other)

    monkeypatch.setattr(limits, "compare_digest", watched)
    tokens = {sha256(name.encode()).hexdigest(): name for name in ("first", "second", "third")}
    assert tenant_of({b"authorization": b"Bearer first"}, tokens) == "first"
    with pytest.raises(RefusedError):
        tenant_of({b"authorization": b"Bearer wrong"}, tokens)
    assert [other for _, other in compared] == [*tokens, *tokens], "all are compared, whichever is right"
    assert all(len(one) == 64 for one, _ in compared)


def test_nesting_is_bounded_to_the_level() -> None:
    deep: list[object] = []
    for _ in range(9):
        deep = [deep, {"a": deep}]
    with pytest.raises(RefusedError, match="nested 10 deep"):
        check_depth(deep, 10)
    check_depth([[[[1]]], {"a": {"b": [2]}}], 4)
    with pytest.raises(RefusedError):
        check_depth([[[[[]]]]], 4)
