"""Absent, unreadable, empty and new are four answers of a file, and what cannot be read opens nothing."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from camdf.errors import UsageError
from camdf.service.store import VersionStore
from running_service import PLAIN, eventually, folder_of, ranking, running
from saying import refuses

TOKEN = "a token of more than sixteen"
ASKED = ranking({"a": 0.9, "b": 0.8, "c": 0.1})
WITH_TOKEN = PLAIN.replace("[gate]", f'token_sha256 = "{sha256(TOKEN.encode()).hexdigest()}"\n\n[gate]')
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
UNREADABLE = "a folder in the place of the file"


def put(path: Path, content: str | None) -> None:
    """A file that holds this, none, or something in its place that nobody can read."""
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if content == UNREADABLE:
        path.mkdir()
    elif content is not None:
        path.write_text(content, encoding="utf-8")


@pytest.mark.parametrize(
    "content", [None, UNREADABLE, "", "[gate", PLAIN, "[gate]\n", WITH_TOKEN[: WITH_TOKEN.index("token")]]
)
def test_a_service_that_asks_for_a_token_asks_for_it_until_it_ends(tmp_path: Path, content: str | None) -> None:
    folder = folder_of(tmp_path / "served", WITH_TOKEN)
    with running(folder) as service:
        put(folder / "camdf.toml", content)
        eventually(lambda: bool(service.ask("/v1/policy", headers=HEADERS).body["refused"]))
        assert service.ask("/v1/decide", ASKED).status == 401
        assert service.ask("/v1/decide", ASKED, headers=HEADERS).status == 200


@pytest.mark.parametrize("content", [None, UNREADABLE, ""])
def test_a_configuration_that_is_absent_unreadable_or_empty_is_not_a_new_one(
    tmp_path: Path, content: str | None
) -> None:
    folder = folder_of(tmp_path / "served", WITH_TOKEN)
    good = VersionStore(folder / "camdf.toml", folder / "state").current
    put(folder / "camdf.toml", content)
    again = VersionStore(folder / "camdf.toml", folder / "state")
    assert again.refused
    assert (again.current.tokens, again.current.digest) == (good.tokens, good.digest)
    put(folder / "camdf.toml", "[gate]\n")
    assert VersionStore(folder / "camdf.toml", folder / "state").current.tokens == {}


def test_an_empty_configuration_is_the_defaults_where_there_was_none(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", "")
    assert VersionStore(folder / "camdf.toml", folder / "state").current.places["", ""].settings.policy == "start"


KINDS = {
    "policy": ("policy.json", '[gate]\npolicy = "policy.json"\ncost_pressure = 0.06\n', None),
    "examples": (
        "examples.jsonl",
        '[gate]\nexamples = "examples.jsonl"\n',
        '{"text": "what is the weather", "needed": ["weather"]}\n',
    ),
    "share": ("share", '[gate]\nrollout.share = "share"\n', "0.5"),
    "kill switch": ("gate-off", '[gate]\nrollout.off = "gate-off"\n', "false"),
}


@pytest.mark.parametrize("content", [None, UNREADABLE, ""], ids=["absent", "unreadable", "empty"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_be_used_leaves_the_last_good_one_and_without_one_nothing_starts(
    tmp_path: Path, kind: str, content: str | None
) -> None:
    name, text, good = KINDS[kind]
    folder = folder_of(tmp_path / "served", text)
    if good is not None:
        (folder / name).write_text(good, encoding="utf-8")
    store = VersionStore(folder / "camdf.toml", folder / "state")
    before = store.current
    put(folder / name, content)
    assert not store.refresh()
    assert name in store.why_refused("")
    assert store.current.places["", ""].gate is before.places["", ""].gate
    again = VersionStore(folder / "camdf.toml", folder / "state")
    assert name in again.why_refused("")
    assert again.current.digest == before.digest
    with pytest.raises(UsageError, match=name):
        VersionStore(folder / "camdf.toml", folder / "another state")


def test_a_switch_whose_name_is_no_file_is_refused_in_words(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", '[gate]\nrollout.off = "a\\u0000b"\n')
    with refuses(UsageError, "gate.rollout.off", must="true or false"):
        VersionStore(folder / "camdf.toml", folder / "state")


@pytest.mark.parametrize("content", [UNREADABLE, "", "{", "[]", '{"name": "camdf.toml"}', "\udcff"])
def test_a_last_good_version_that_cannot_be_read_is_said_and_is_not_one_that_is_absent(
    tmp_path: Path, content: str
) -> None:
    folder = folder_of(tmp_path / "served")
    store = VersionStore(folder / "camdf.toml", folder / "state")
    put(store.last_good, content.encode("utf-8", "surrogateescape").decode("latin-1"))
    (folder / "camdf.toml").write_text("[gate", encoding="utf-8")
    with pytest.raises(UsageError, match=r"is not TOML.*\n.*last good version .*last-good-"):
        VersionStore(folder / "camdf.toml", folder / "state")
    put(store.last_good, None)
    with pytest.raises(UsageError) as refused:
        VersionStore(folder / "camdf.toml", folder / "state")
    assert "last good version" not in str(refused.value)
    folder_of(folder)
    put(store.last_good, "{")
    assert not VersionStore(folder / "camdf.toml", folder / "state").refusing
    assert os.path.getsize(store.last_good) > 1, "it is written anew"
