"""Transcripts on this machine, read as streams: what cannot be read is counted by why, and nothing raises.

Nearly all bytes are results of tools, and lines that hold them are passed over by a look at their bytes.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from camdf.integrations.transcripts.claude_code import ClaudeCodeTranscript, claude_code_home
from camdf.integrations.transcripts.codex import CodexTranscript, codex_home
from camdf.integrations.transcripts.thread import CLAUDE_CODE, CODEX, Thread

LONGEST_LINE = 8_000_000
"""Bytes of a line that is read; a longer one that would count is left out, and said."""

AT_ONCE = 1 << 20
"""Bytes of a line by which it is passed over, and that a file is read in."""

TORN = "lines torn or no JSON"
LONG = "lines too long"
NO_TEXT = "lines that are no UTF-8"
NO_OBJECT = "lines that are no object"
UNFINISHED = "last lines cut short, as of a session that runs"
CLOSED = "files or folders that may not be read"
LINKS = "links that lead back"
EMPTY = "files without a session"


READERS: Mapping[str, type[ClaudeCodeTranscript | CodexTranscript]] = {
    CLAUDE_CODE: ClaudeCodeTranscript,
    CODEX: CodexTranscript,
}


class Transcripts(NamedTuple):
    """What was read of all transcripts."""

    threads: list[Thread]
    files: int
    bytes: int
    problems: Counter[str]
    """How often what could not be read, by why."""


def read_transcripts(*, with_texts: bool = False) -> Transcripts:
    """All transcripts of Claude Code and Codex on this machine; requests are kept only `with_texts`."""
    problems: Counter[str] = Counter()
    threads: list[Thread] = []
    files = 0
    whole = 0
    for client, path, size in _transcript_files(problems):
        files += 1
        whole += size
        try:
            with open(path, "rb", buffering=AT_ONCE) as file:
                thread = _read_transcript(client, file, size, with_texts, problems)
        except OSError:
            problems[CLOSED] += 1
            continue
        if thread.session:
            threads.append(thread)
        else:
            problems[EMPTY] += 1
    return Transcripts(threads, files, whole, problems)


def _transcript_files(problems: Counter[str]) -> Iterator[tuple[str, str, int]]:
    """Every transcript: its client, its path and its bytes."""
    places = (
        (CLAUDE_CODE, claude_code_home() / "projects"),
        (CODEX, codex_home() / "sessions"),
        (CODEX, codex_home() / "archived_sessions"),
    )
    seen: set[tuple[int, int]] = set()
    for client, place in places:
        for path, size in _files_below(place, seen, problems):
            yield client, path, size


def _files_below(place: Path, seen: set[tuple[int, int]], problems: Counter[str]) -> Iterator[tuple[str, int]]:
    """The transcripts in a folder, each once, whatever links lead to it."""
    folders = [str(place)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError:
            problems[CLOSED] += 1
            continue
        for entry in entries:
            try:
                about = os.stat(entry.path)
            except OSError:
                problems[CLOSED] += 1
                continue
            is_folder = stat.S_ISDIR(about.st_mode)
            is_transcript = stat.S_ISREG(about.st_mode) and entry.name.endswith(".jsonl")
            if not (is_folder or is_transcript):
                continue
            if (about.st_dev, about.st_ino) in seen:
                problems[LINKS] += 1
                continue
            seen.add((about.st_dev, about.st_ino))
            if is_folder:
                folders.append(entry.path)
            else:
                yield entry.path, about.st_size


def _read_transcript(client: str, file: BinaryIO, size: int, with_texts: bool, problems: Counter[str]) -> Thread:
    transcript = READERS[client](with_texts=with_texts)
    left = size  # what is written meanwhile is of the next reading
    while left > 0 and (line := file.readline(min(left, LONGEST_LINE))):
        left -= len(line)
        is_whole = line.endswith(b"\n")
        if not is_whole and left > 0:
            if not transcript.is_unread(line):
                problems[LONG] += 1
            left -= _skip_line(file, left)
            continue
        if transcript.is_unread(line):
            continue
        record = _record_in(line, is_whole, problems)
        if record is not None:
            transcript.take(record)
    return transcript.end()


def _skip_line(file: BinaryIO, left: int) -> int:
    """Pass over the rest of a line, and say how many bytes that was."""
    skipped = 0
    while skipped < left and (part := file.readline(min(AT_ONCE, left - skipped))):
        skipped += len(part)
        if part.endswith(b"\n"):
            break
    return skipped


def _record_in(line: bytes, is_whole: bool, problems: Counter[str]) -> dict[str, object] | None:
    """The object in a line; None where there is none, which is counted."""
    if not line.strip():
        return None
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        problems[NO_TEXT] += 1
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        problems[TORN if is_whole else UNFINISHED] += 1
        return None
    if isinstance(record, dict):
        return record
    if record is not None:
        problems[NO_OBJECT] += 1
    return None
