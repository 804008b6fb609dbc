"""Where tests assert how a sentence reads: `python scripts/exact_sentences.py [FOLDER...]`, by default all tests.

A wording that a test asserts stands in two places, and says nothing of what is true. So a test of an error names its
class, the setting, the requirement's number and the value (`refuses` of `tests/parts/saying.py`), and a test of a
page looks for its figures.

Counted are string literals with five words or more in a row, f-strings and regular expressions too, that an assertion
looks for:

- in `match=` of `pytest.raises` and `pytest.warns`, and among the arguments of `refuses` and `says`;
- in an `assert`, as an operand of `==`, `!=`, `in` or `not in`, also inside of a list or a dictionary, and as what is
  given to `startswith`, `endswith`, `count` or a function of `re`;
- behind a name in one of those places: a constant, a loop over literals, or a parameter of the test, where each case
  counts.

A word is one of letters: neither `--check` nor `0.5` is one. A placeholder, an ellipsis and `.*` end a row, because
anything may stand there. What a test itself hands in, as the text of a task, is no wording of ours. `--list` prints
each literal, `--check` fails where there are more than the most.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests", "traces/tests", "lab/tests")
MOST = 73
"""What there were when it was set, names of fields and notices of licenses among them. It may only fall."""

WORDS = 5

CHECKS = frozenset({"refuses", "says"})
"""Functions of ours all of whose texts are looked for."""

SEARCHES = frozenset({"startswith", "endswith", "count", "search", "match", "fullmatch", "findall"})
"""Methods and functions of `re` whose first argument is looked for."""

BREAK = " … "
WORD = re.compile(r"\W*[A-Za-z][a-z]*(?:['-][a-z]+)*\W*")
LOOKING = CHECKS | SEARCHES | {"compile", "parametrize", "raises", "warns"}
"""What is given texts to look for."""

COMPARED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef)


def sentences(source: str) -> list[tuple[int, str]]:
    """The lines of one file with a sentence that a test looks for, and the sentences."""
    tree = ast.parse(source)
    found = dict[tuple[int, int], str]()
    shared = bound_names(tree.body)
    own = handed_in(tree, shared)
    for function in (node for node in ast.walk(tree) if isinstance(node, SCOPES)):
        known = {**shared, **bound_names(function.body), **parameters(function)}
        for operand in looked_for(function):
            for literal in literals(operand, known):
                if words(written(literal)) >= WORDS and written(literal) not in own:
                    found[literal.lineno, literal.col_offset] = written(literal)
    return sorted((line, text) for (line, _), text in found.items())


def looked_for(function: ast.AST) -> Iterator[ast.expr]:
    """Every expression of a function that an assertion compares with something else, or searches for in it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield from (each.value for each in node.keywords if each.arg == "match")
            if name_of_call(node) in CHECKS:
                yield from (*node.args, *(each.value for each in node.keywords))
        elif isinstance(node, ast.Assert):
            yield from compared(node.test)


def compared(test: ast.expr) -> Iterator[ast.expr]:
    """Every operand of the comparisons in a condition, and what is searched for there."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], COMPARED):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.Call) and name_of_call(node) in SEARCHES:
            yield from node.args[:1]


def handed_in(tree: ast.AST, known: dict[str, list[ast.AST]]) -> set[str]:
    """The texts of a file that the tests give to what they try, rather than look for in what it says."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and name_of_call(node) not in LOOKING]
    given = [value for call in calls for value in (*call.args, *(word.value for word in call.keywords))]
    return {written(literal) for value in given for literal in literals(value, known)}


def name_of_call(call: ast.Call) -> str:
    """The name of a function or a method that is called."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def literals(operand: ast.AST, known: dict[str, list[ast.AST]], seen: tuple[str, ...] = ()) -> Iterator[ast.expr]:
    """The string literals of an operand, and those behind its names; what a call is given is no part of it."""
    if isinstance(operand, ast.JoinedStr) or (isinstance(operand, ast.Constant) and isinstance(operand.value, str)):
        yield operand
    elif isinstance(operand, ast.Name):
        for value in known.get(operand.id, ()) if operand.id not in seen else ():
            for part in keys_of(value):
                yield from literals(part, known, (*seen, operand.id))
    elif isinstance(operand, ast.Call):
        yield from literals(operand.func, known, seen)
    else:
        for child in ast.iter_child_nodes(operand):
            yield from literals(child, known, seen)


def keys_of(value: ast.AST) -> list[ast.AST]:
    """A value behind a name, or only the keys of a table, by which it is looked up in."""
    return [key for key in value.keys if key is not None] if isinstance(value, ast.Dict) else [value]


def bound_names(body: Iterable[ast.stmt]) -> dict[str, list[ast.AST]]:
    """What stands behind names: the values assigned to them, and what loops and comprehensions take them from."""
    known = dict[str, list[ast.AST]]()
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in taken_apart(target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = [pair for row in rows(node.iter) for pair in taken_apart(node.target, row)]
        else:
            continue
        for name, value in pairs:
            known.setdefault(name, []).append(value)
    return known


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[ast.AST]]:
    """What stands behind the parameters of a test that `pytest.mark.parametrize` gives."""
    known = dict[str, list[ast.AST]]()
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and name_of_call(mark) == "parametrize" and len(mark.args) == 2:
            named = ast.literal_eval(mark.args[0])
            names = named.replace(",", " ").split() if isinstance(named, str) else named
            target = ast.parse(", ".join(names), mode="eval").body
            for row in rows(mark.args[1]):
                for name, value in taken_apart(target, row):
                    known.setdefault(name, []).append(value)
    return known


def rows(values: ast.expr) -> list[ast.expr]:
    """The elements of a list or of the values of a table that is written out."""
    if isinstance(values, ast.List | ast.Tuple | ast.Set):
        return values.elts
    if isinstance(values, ast.Call) and isinstance(values.func, ast.Attribute) and not values.args:
        return rows(values.func.value)
    if isinstance(values, ast.Dict):
        return [ast.Tuple([key, value]) for key, value in zip(values.keys, values.values, strict=True) if key]
    return []


def taken_apart(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """Each name of a target with its part of a value."""
    if isinstance(value, ast.Call) and name_of_call(value) == "param":
        value = ast.Tuple(value.args) if isinstance(target, ast.Tuple) else value.args[0]
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for part, given in zip(target.elts, value.elts, strict=False):
            yield from taken_apart(part, given)


def written(literal: ast.expr) -> str:
    """The text of a literal, with a placeholder for each value of an f-string."""
    if isinstance(literal, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else BREAK for part in literal.values)
    return str(literal.value) if isinstance(literal, ast.Constant) else ""


def words(text: str) -> int:
    """How many words of letters a text has in a row."""
    plain = re.sub(r"\\(.)", r"\1", re.sub(r"\.[*+]\??", BREAK, text))
    rows_of_words = (row.split() for row in plain.split(BREAK))
    return max(sum(WORD.fullmatch(part) is not None for part in row) for row in rows_of_words)


def main() -> int:
    """Print how many there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--list", action="store_true", help="print each of them")
    parser.add_argument("--check", action="store_true", help=f"fail where there are more than {MOST}")
    options = parser.parse_args()
    counts = Counter[str]()
    for folder in options.folders or [ROOT / name for name in FOLDERS]:
        for path in sorted(folder.rglob("*.py")):
            for line, text in sentences(path.read_text(encoding="utf-8")):
                counts[path.name] += 1
                if options.list:
                    print(f"{path}:{line}: {text!r}")
    for name, count in counts.most_common():
        print(f"{count:5} {name}")
    print(f"{counts.total():5} exact sentences, at most {MOST}")
    return int(options.check and counts.total() > MOST)


if __name__ == "__main__":
    sys.exit(main())
