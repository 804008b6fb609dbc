"""A scorer by its record, and the record of a scorer: a policy's file says by it what gave the scores it learned from.

Two scorers of equal records give equal scores for equal texts. Those that keep other scorers' answers (`Shared`) or
believe some servers only (`TrustAware`) have the record of the scorer that they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from camdf.errors import UsageError
from camdf.policies.base import Policy
from camdf.policies.training import GIVEN, ScorerRecord
from camdf.scorers.base import TEXTS, Scorer
from camdf.scorers.bm25 import BM25, Tokens, word_parts
from camdf.scorers.embeddings import Embeddings
from camdf.scorers.fusion import Fusion
from camdf.scorers.given import Given
from camdf.scorers.necessity import PROMPT_VERSION, Necessity
from camdf.scorers.shared import Shared
from camdf.scorers.start import Start
from camdf.scorers.trust_aware import TrustAware
from camdf.scorers.with_examples import GivenExamples, ToolExamples, examples_digest_of, tool_examples
from camdf.scorers.word_vectors import WEIGHTS, WordVectors
from camdf.tools import Tool

ScorerMismatch: TypeAlias = Literal["refuse", "allow"]
"""What becomes of a policy beside a scorer that it was not fitted with."""

TOKENS: dict[str, Tokens | None] = {"words": None, "word_parts": word_parts}
"""What BM25 compares, by name."""

LONGEST = 500
"""How many characters are told of the scorers of a fusion."""

WORD_VECTORS = f"wordllama {WEIGHTS.rpartition('/')[2].removesuffix('.safetensors')}"


def record_of(scorer: Scorer | None) -> ScorerRecord:
    """What a scorer is, for a policy's file; without a scorer, that the scores are given.

    >>> str(record_of(Given({"search": 0.9}))), record_of(None) == GIVEN
    ('scores that came with the tasks', True)
    """
    if isinstance(scorer, Shared | TrustAware):
        return record_of(scorer.scorer)
    if scorer is None or isinstance(scorer, Given):
        return GIVEN
    examples = _examples_sha256(scorer)
    if isinstance(scorer, Start):
        return ScorerRecord("start", (("text", _name_of_function(scorer.text.text, TEXTS)),), WORD_VECTORS, examples)
    if isinstance(scorer, BM25):
        settings = {
            "k1": repr(scorer.k1),
            "b": repr(scorer.b),
            "text": _name_of_function(scorer.text, TEXTS),
            "tokens": _name_of_function(scorer.tokens, TOKENS),
        }
        return ScorerRecord("bm25", tuple(sorted(settings.items())), "", examples)
    if isinstance(scorer, Embeddings):
        text = ("text", _name_of_function(scorer.text, TEXTS))
        return ScorerRecord("embeddings", (text,), _name_of_model(scorer.model), examples)
    if isinstance(scorer, Necessity):
        asked = (("prompt", str(PROMPT_VERSION)), ("variant", scorer.variant))
        return ScorerRecord("llm", asked, scorer.model)
    if isinstance(scorer, Fusion):
        parts = " + ".join(str(record_of(part)) for part in scorer.scorers)[:LONGEST]
        weights = ", ".join(map(repr, scorer.weights.tolist()))
        settings = {"how": scorer.how, "k": repr(scorer.k), "scorers": parts, "weights": weights}
        return ScorerRecord("fusion", tuple(sorted(settings.items())), "", examples)
    return ScorerRecord(_path_of(scorer), (), "", examples)


def scorer_of(record: ScorerRecord, examples: GivenExamples = ()) -> Scorer | None:
    """The scorer of a record, None where the scores are given; a UsageError where the record alone cannot make it.

    `examples` are those whose digest it has.
    """
    if record.is_given:
        return None
    settings = dict(record.settings)
    by_tool = tool_examples(examples)
    text = TEXTS.get(settings.get("text", ""))
    if text is not None and record.kind == "start":
        return Start(text=text, examples=by_tool)
    if text is not None and record.kind == "bm25" and settings.get("tokens") in TOKENS:
        try:
            k1 = float(settings["k1"])
            b = float(settings["b"])
        except (KeyError, ValueError):
            raise UsageError(f"The scorer {record} cannot be made from its record. Give the scorer.") from None
        return BM25(k1=k1, b=b, text=text, tokens=TOKENS[settings["tokens"]], examples=by_tool)
    if text is not None and record.kind == "embeddings" and ":" not in record.model:
        return Embeddings(record.model, text=text, examples=by_tool)
    raise UsageError(f"The scorer {record} cannot be made from its name alone. Give the scorer.")


def mismatch(fitted: ScorerRecord | None, given: ScorerRecord) -> str:
    """That a policy was fitted with another scorer than the one that is given, in words; "" where it was not.

    Nobody can tell who gave the scores that came with the tasks of a fit, nor those that a harness brings along.
    """
    if fitted is None or fitted.is_given or given.is_given or fitted == given:
        return ""
    both = f"The policy was fitted with the scorer {fitted}, and the scorer given is {given}."
    if replace(fitted, examples_sha256=given.examples_sha256) != given:
        return both
    wanted = "the examples of the fit" if fitted.examples_sha256 else "no examples for the scorer"
    return f"{both} They differ in the examples that they read: give {wanted}."


def _name_of_function(value: Any, known: dict[str, Any]) -> str:
    """The name by which a function is known here, or where Python finds it."""
    return next((name for name, known_one in known.items() if known_one is value), None) or _path_of(value)


def _name_of_model(model: Any) -> str:
    if isinstance(model, WordVectors):
        return WORD_VECTORS
    return _path_of(model) if callable(model) else str(model)


def _path_of(value: Callable[..., Any]) -> str:
    """Where Python finds a function, or the class of an object, as module:name."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"


def _examples_sha256(scorer: Scorer) -> str:
    """Of the examples that a scorer reads, by names alone where it is one of ours."""
    theirs = getattr(scorer, "examples", None)
    return theirs.digest_by_name if isinstance(theirs, ToolExamples) else examples_digest_of(scorer)


def scorer_for_tools(tools: Sequence[Tool], examples: ToolExamples | None, record: ScorerRecord | None) -> Scorer:
    """The scorer that a policy was fitted with, else `Start()`, once it has read the examples for these tools."""
    own = [tool for tool in tools if not tool.foreign]
    if examples is not None and not any(tool.server for tool in own):
        examples = examples.without_servers()
    scorer = Start(examples=examples or ()) if record is None else scorer_of(record, examples or ())
    if scorer is None:
        raise UsageError(
            "This policy was fitted on scores that came with the tasks, and its file cannot say what gave them. Give "
            "that scorer: scorer=..., or make the gate without one and pass scores= with every task."
        )
    if examples is not None and isinstance(scorer, Start):
        return scorer.read(own)
    return scorer


def scorer_record(policy: Policy) -> ScorerRecord | None:
    """What gave the scores that a policy was fitted on, where its file says so."""
    training = getattr(policy, "training_", None)
    return None if training is None else training.scorer


def check_scorer(policy: Policy, scorer: Scorer | None, scorer_mismatch: ScorerMismatch) -> None:
    """Raise a UsageError where a policy was fitted with another scorer, unless that is meant."""
    fitted = scorer_record(policy)
    if fitted is None or scorer_mismatch == "allow":
        return
    problem = mismatch(fitted, record_of(scorer))
    if problem:
        raise UsageError(
            f"{problem} What was measured would not be what decides. Give the scorer of the fit, or fit again with "
            "this one; where the difference is meant, set scorer_mismatch='allow'."
        )
