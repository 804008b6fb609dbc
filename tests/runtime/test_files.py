"""Files are whole, private and where they were, whoever is killed while writing them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.runtime.files import clear_unfinished, private_opener, whole_file, write_whole
from killed import at_every_step, killed_at_byte

OLD, NEW = b"the old file\n" * 3, b"the new one, which is longer than the old file\n" * 4

modes = st.sampled_from([0o600, 0o640, 0o644, 0o660, 0o400, 0o664, 0o666])


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@settings(deadline=None)
@given(mode=modes, linked=st.booleans(), byte=st.integers(0, len(NEW)))
def test_a_kill_at_any_byte_leaves_the_old_file_with_its_mode_and_its_link(mode: int, linked: bool, byte: int) -> None:
    with TemporaryDirectory() as folder:
        real = Path(folder, "kept", "real.json") if linked else Path(folder, "file.json")
        path = Path(folder, "file.json")
        real.parent.mkdir(exist_ok=True)
        real.write_bytes(OLD)
        real.chmod(mode)
        if linked:
            path.symlink_to(real)
        was_killed = killed_at_byte(byte, lambda: write_whole(path, NEW))
        assert was_killed is (byte < len(NEW))
        assert (path.read_bytes(), mode_of(real), path.is_symlink()) == (OLD if was_killed else NEW, mode, linked)
        write_whole(path, NEW)
        assert (path.read_bytes(), mode_of(real), path.is_symlink()) == (NEW, mode, linked)
        assert [each.name for each in real.parent.iterdir() if each.is_file() and not each.is_symlink()] == [real.name]


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("mode", [None, 0o600, 0o644])
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path: Path, mode: int | None, private: bool) -> None:
    path = tmp_path / "file.json"

    def begin() -> None:
        path.unlink(missing_ok=True)
        if mode is not None:
            path.write_bytes(OLD)
            path.chmod(mode)

    def look(step: int) -> None:
        held = path.read_bytes() if path.exists() else None
        assert held in (None if mode is None else OLD, NEW)
        for beside in tmp_path.glob("*.part"):
            assert mode_of(beside) & 0o077 & ~(mode or (0 if private else 0o044)) == 0, (step, oct(mode_of(beside)))
        begin()

    begin()
    assert at_every_step(lambda: write_whole(path, NEW, private=private), look) >= 4
    write_whole(path, NEW, private=private)
    assert list(tmp_path.iterdir()) == [path]
    assert mode_of(path) == (mode or (0o600 if private else 0o666 & ~current_umask()))


def test_what_is_private_is_never_readable_by_others_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    before = os.umask(0)
    try:
        with whole_file(path, private=True) as beside:
            assert mode_of(Path(beside)) == 0o600
        path.unlink()
        with open(path, "ab", opener=private_opener) as file:
            file.write(OLD)
    finally:
        os.umask(before)
    assert mode_of(path) == 0o600


def test_a_file_that_somebody_writes_now_is_no_leftover(tmp_path: Path) -> None:
    path, begun, cleared = tmp_path / "file.json", Event(), Event()

    def write() -> None:
        with whole_file(path) as beside:
            begun.set()
            cleared.wait()
            Path(beside).write_bytes(NEW)

    writer = Thread(target=write)
    writer.start()
    begun.wait()
    clear_unfinished(tmp_path)
    clear_unfinished(tmp_path, path.name)
    cleared.set()
    writer.join()
    assert path.read_bytes() == NEW


def test_only_what_a_killed_writer_left_is_cleared(tmp_path: Path) -> None:
    left = [tmp_path / f"{name}.0123456789ab.part" for name in ("one.json", "two.json")]
    kept = [tmp_path / name for name in ("one.json", "one.json.part", "own.0123456789ab.part.json")]
    for path in (*left, *kept):
        path.write_bytes(OLD)
    clear_unfinished(tmp_path, "one.json")
    assert sorted(tmp_path.iterdir()) == sorted([left[1], *kept])
    clear_unfinished(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
