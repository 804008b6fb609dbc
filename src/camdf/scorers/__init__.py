"""From a task's text and its tools to one score a tool.

A scorer is any callable `scorer(task, tools)` that returns one finite score, not negative, for every tool
(`camdf.tools.Tool`), in their order; a coroutine function will do, too. These are ours. Constructors only store; a
scorer that has no answer raises `ScorerError`.
"""

from camdf.errors import ScorerError
from camdf.scorers.base import Scorer, checked, full_text, plain_text, words_text
from camdf.scorers.bm25 import BM25, word_parts
from camdf.scorers.embeddings import Embeddings
from camdf.scorers.fusion import Fusion
from camdf.scorers.given import Given
from camdf.scorers.named import record_of
from camdf.scorers.necessity import Necessity
from camdf.scorers.shared import Shared
from camdf.scorers.start import Start
from camdf.scorers.trust_aware import TrustAware
from camdf.scorers.word_vectors import WordVectors

__all__ = [
    "BM25",
    "Embeddings",
    "Fusion",
    "Given",
    "Necessity",
    "Scorer",
    "ScorerError",
    "Shared",
    "Start",
    "TrustAware",
    "WordVectors",
    "checked",
    "full_text",
    "plain_text",
    "record_of",
    "word_parts",
    "words_text",
]
