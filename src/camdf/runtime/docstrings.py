"""What a class says of its fields, read from its source: the docstring below each."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def meanings(kind: type) -> dict[str, str]:
    """The docstring of every field that has one, on one line."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
