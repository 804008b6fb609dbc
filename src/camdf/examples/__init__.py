"""Requests with the tools that they need: written by a language model, a user's own, or read from logs."""

from camdf.examples.answers import read_answer
from camdf.examples.asking import Prompt, Wanted, prompts
from camdf.examples.checking import Check, Ranking, check_examples
from camdf.examples.own import own_examples
from camdf.examples.writing import ExamplesFile, named_tools

__all__ = [
    "Check",
    "ExamplesFile",
    "Prompt",
    "Ranking",
    "Wanted",
    "check_examples",
    "named_tools",
    "own_examples",
    "prompts",
    "read_answer",
]
