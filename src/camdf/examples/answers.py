"""What a language model answered, read and checked: whatever is not an example that was asked for is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from camdf.datasets.examples import Example
from camdf.datasets.records import is_text
from camdf.examples.asking import MOST_TOGETHER, TASK, Prompt
from camdf.runtime.loose_json import objects_in

LONGEST_REQUEST = 500
"""Characters. People who paste more than that paste a document."""

WITHOUT_TEXT = "without a text"
WITHOUT_NEEDED_TOOLS = "without a list of needed tools"
FOR_OTHER_TOOLS = "for tools that were not asked for"
SPELLS_A_TOOL = "that spell the name of a tool"
IN_ANOTHER_LANGUAGE = "in another language"
REPETITIONS = "repetitions"
COPIED = "copied from the prompt"
TOO_MANY = "more than were asked for"
"""Why a line is left out, besides its length and the number of its tools."""

LETTER = re.compile(r"[^\W\d_]")
SCRIPTS = {
    **dict.fromkeys(("ar", "fa", "ur"), re.compile("[\u0600-\u06ff]")),
    **dict.fromkeys(("bg", "ru", "uk"), re.compile("[\u0400-\u04ff]")),
    "el": re.compile("[\u0370-\u03ff]"),
    "he": re.compile("[\u0590-\u05ff]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "ja": re.compile("[\u3040-\u30ff\u3400-\u9fff]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "zh": re.compile("[\u3400-\u9fff]"),
}
"""Letters of languages that are told from English by them. Whether a text is German or Spanish nobody checks."""


class ExamplesRead(NamedTuple):
    """The examples of an answer, and how many of its lines were left out, by why."""

    examples: list[Example]
    refused: Counter[str]


def read_answer(answer: str, prompt: Prompt, written: Iterable[Example] = ()) -> ExamplesRead:
    """The examples in a text: a JSON object, a list or lines of objects, whatever prose or fences are around them.

    They need tools that were shown and no others, they are no repetitions of each other or of those `written`, and they
    are no more than were asked for: so many a tool, so many that need several, so many that need none.
    """
    names = ways_to_name(prompt.shown)
    left: Counter[Any] = Counter({(name,): sum(counts.values()) for name, counts in prompt.asked.items()})
    left.update({"several": prompt.together, "none": prompt.none})
    known = {plain(example.text) for example in written}
    said = f" {plain(TASK + prompt.text)} "
    reading = ExamplesRead([], Counter())
    for record in records_in(answer):
        example = _example_in_record(record, names, prompt.languages)
        if isinstance(example, str):
            reading.refused[example] += 1
            continue
        text = plain(example.text)
        kind = _kind_asked_for(example)
        if text in known:
            reading.refused[REPETITIONS] += 1
        elif " " in text and f" {text} " in said:
            reading.refused[COPIED] += 1
        elif left[kind] <= 0:
            reading.refused[TOO_MANY] += 1
        else:
            left[kind] -= 1
            known.add(text)
            reading.examples.append(example)
    return reading


def records_in(answer: str) -> Iterator[Mapping[str, Any]]:
    """The objects of an answer that have a text, wherever they stand."""
    for holder in objects_in(answer):
        if "text" in holder:
            yield holder
            continue
        lists = (value for value in holder.values() if isinstance(value, list))
        for record in chain.from_iterable(lists):
            if isinstance(record, dict) and "text" in record:
                yield record


def plain(text: str) -> str:
    """A text as it is compared with others: without case, and without what stands between its words."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _example_in_record(
    record: Mapping[str, Any], names: Mapping[str, str], languages: Collection[str]
) -> Example | str:
    """The example in a record, or why it is none."""
    text = _in_one_line(record["text"])
    needed: Any = record.get("needed")
    groups: Any = record.get("or", [])
    if not is_text(text) or len(LETTER.findall(text)) < 2:
        return WITHOUT_TEXT
    if len(text) > LONGEST_REQUEST:
        return f"longer than {LONGEST_REQUEST} characters"
    if not _is_names(needed) or not isinstance(groups, list) or not all(map(_is_names, groups)):
        return WITHOUT_NEEDED_TOOLS
    if not {*needed}.union(*groups) <= names.keys():
        return FOR_OTHER_TOOLS
    tools = _full_names(needed, names)
    alternatives = tuple(_full_names(group, names) for group in groups if group)
    if len(tools) + len(alternatives) > MOST_TOGETHER:
        return f"for more than {MOST_TOGETHER} tools at once"
    if any(name in text for name in names if "_" in name or "/" in name):
        return SPELLS_A_TOOL
    only = next(iter(languages)) if len(languages) == 1 else None
    language = record.get("lang", only)
    if language not in languages or not SCRIPTS.get(language, LETTER).search(text):
        return IN_ANOTHER_LANGUAGE
    return Example(text, tools, alternatives, language)


def _in_one_line(text: object) -> str:
    if not isinstance(text, str):
        return ""
    return " ".join(text.split())


def _full_names(written: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Tools by server and name, each once."""
    return tuple(dict.fromkeys(names[name] for name in written))


def _kind_asked_for(example: Example) -> Any:
    """Whether it was asked for as an example for one tool, which is named, for several, or for none."""
    if len(example.needed) + len(example.alternatives) > 1:
        return "several"
    return example.right[:1] or "none"


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def ways_to_name(tools: Iterable[str]) -> dict[str, str]:
    """Every way to name a tool: server and name, or the name alone where only one server has it.

    >>> ways_to_name(["files/search", "web/search", "mail/send"])
    {'send': 'mail/send', 'files/search': 'files/search', 'web/search': 'web/search', 'mail/send': 'mail/send'}
    """
    full = list(tools)
    bare = [name.rpartition("/")[2] for name in full]
    times = Counter(bare)
    once = {short: name for short, name in zip(bare, full, strict=True) if times[short] == 1}
    return {**once, **dict(zip(full, full, strict=True))}
