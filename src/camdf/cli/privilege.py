"""privilege: what the tools of a list may do, guessed for a human to correct; and whether a journal is whole."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from camdf.cli.parser import add_json, check_output, print_json
from camdf.cli.tools import TOOLS_FILE, tools_in_file
from camdf.errors import DataError, UsageError
from camdf.gate.guessed_effects import GuessedEffect, OpenPair, guessed_effect, open_pairs
from camdf.gate.journal import Journal
from camdf.gate.privilege import Privilege
from camdf.runtime.files import write_whole
from camdf.runtime.visible import visible
from camdf.tools import EFFECTS, viewed_tool

VERIFY = "verify"

PAIRS = 5
"""How many pairs are shown."""


def add_commands(commands: Any) -> None:
    """privilege."""
    parser = commands.add(_privilege, codes={1: "verify: a line is not as it was written"})
    parser.add_argument("words", nargs="+", metavar=f"[{VERIFY}] FILE", help=f"{TOOLS_FILE}; or {VERIFY} and a journal")
    parser.add_argument(
        "-o", "--output", type=Path, help="where to write the classes, for you to correct and Privilege to read (.json)"
    )
    parser.add_argument("--key-file", type=Path, help=f"with {VERIFY}: the file whose bytes are the journal's key")
    add_json(parser)


def _privilege(options: argparse.Namespace) -> int:
    """Say what the tools of a list may do, for you to correct.

    camdf privilege tools.json -o privilege.json
    """
    words = options.words
    if words[0] == VERIFY:
        return _verify(options, words[1:])
    if len(words) > 1:
        raise UsageError(f"Name one file of tools. Got {' '.join(words)} instead.")
    if options.output is not None:
        check_output(options.output, (".json",))
    tools = [viewed_tool(native) for native in tools_in_file(Path(words[0]))]
    guesses: dict[str, GuessedEffect] = {}
    for guess in sorted(map(guessed_effect, tools), key=lambda guess: EFFECTS.index(guess.effect)):
        guesses[guess.tool] = guess  # of two tools with one name, the worse
    effects = {name: guess.effect for name, guess in guesses.items()}
    pairs = open_pairs(tools, Privilege(effects))
    if options.output is not None:
        write_whole(options.output, f"{json.dumps(effects, indent=1, ensure_ascii=False)}\n".encode())
    if options.json:
        told = [guess._asdict() for guess in guesses.values()]
        print_json({"tools": told, "open": [pair._asdict() for pair in pairs]})
        return 0
    width = max(map(len, map(visible, guesses)), default=0)
    for guess in guesses.values():
        print(f"{guess.effect:<6}  {visible(guess.tool):<{width}}  {guess.because}")
    counts = ", ".join(f"{list(effects.values()).count(effect)} {effect}" for effect in EFFECTS)
    print(f"\n{counts}. These are guesses: correct them before a gate reads them.")
    print(_open_sentence(pairs))
    if options.output is not None:
        print(f"wrote {options.output}")
    return 0


def _open_sentence(pairs: list[OpenPair]) -> str:
    """What is still open where what reads is free."""
    if not pairs:
        return "Still open: nothing. No tool that reads freely stands beside one that can send."
    reads = {pair.reads for pair in pairs}
    sends = {pair.sends for pair in pairs}
    first = ", ".join(f"{visible(pair.reads)} + {visible(pair.sends)}" for pair in pairs[:PAIRS])
    more = "" if len(pairs) <= PAIRS else f", and {len(pairs) - PAIRS:,} more"
    return (
        f"Still open, once a user asks for what sends: {len(reads)} that read freely with {len(sends)} that can send "
        f"what they read ({first}{more})."
    )


def _verify(options: argparse.Namespace, words: list[str]) -> int:
    if len(words) != 1 or options.key_file is None:
        raise UsageError(f"Name one journal and its key: camdf privilege {VERIFY} journal.jsonl --key-file FILE.")
    path = Path(words[0])
    try:
        whole = Journal(path, options.key_file.read_bytes()).verify()
    except DataError as error:
        if options.json:
            print_json({"whole": False, "error": str(error)})
        else:
            print(error)
        return 1
    if options.json:
        print_json({"whole": True, **whole._asdict()})
    else:
        print(f"{path} is whole. Lines: {whole.lines:,}. The hash of the last one: {whole.last}")
    return 0
