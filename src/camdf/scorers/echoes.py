"""Which texts have the words of a request, however they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import numpy as np

from camdf.scorers.bm25 import WORD, letter_runs, without_accents

LETTERS = 4
"""Shorter words say too little to be counted: most of them stand in every text. Runs of this length are compared."""

HALF = 0.5
"""A text has a word if it has this share of the word's runs: padding a word or gluing it to others leaves them."""

ALIKE = 0.6
"""Two words are alike if they share this part of their letter pairs: a letter left out changes two or three."""

SHORTEST_PART = 3
"""What is left of a word if it is cut: its first three letters, or four or more of them in a row."""

LONGEST_WORD = 20
"""Longer words are compared by other means than by their parts."""

VOWELS = frozenset("aeiou")

LOOKS_LIKE = str.maketrans("асеорхуіѕһјԁԛԝαορτυικνε013457", "aceopxyishjdqwaoptuikveoieast")  # noqa: RUF001
"""Letters and digits that are read as another letter."""


class WordsOfTexts:
    """Texts by the words they have: `having(word)` names those that have it, or something that reads like it."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        words = {place: _spaced_words(text) for place, text in texts.items()}
        self._by_run = _inverted((place, runs_of(text)) for place, text in texts.items())
        self._by_cut = _inverted((place, filter(_survives_a_cut, its)) for place, its in words.items())
        self._by_frame = _inverted((place, map(_frame, its)) for place, its in words.items())
        self._by_piece = _inverted((place, _words_put_together(its)) for place, its in words.items())
        pairs = list(map(_letter_pairs, self._by_piece))
        self._sizes = np.array(list(map(len, pairs)))
        self._by_pair = {pair: np.array(numbers) for pair, numbers in _inverted(enumerate(pairs)).items()}
        self._places = list(self._by_piece.values())

    def having(self, word: str) -> set[int]:
        """The places of the texts that have a word."""
        runs = runs_of(word)
        shared = Counter(chain.from_iterable(self._by_run.get(run, ()) for run in runs))
        places = {place for place, count in shared.items() if count >= HALF * len(runs)}
        if len(word) >= LETTERS:
            places.update(*(self._by_cut.get(part, ()) for part in _cut_forms(word)))
            places.update(self._by_frame.get(_frame(word), ()))
            places.update(*(self._places[number] for number in self._alike(_letter_pairs(word))))
        return places

    def _alike(self, pairs: frozenset[str]) -> list[int]:
        """The numbers of the pieces of texts that are like a word of these letter pairs."""
        known = [self._by_pair[pair] for pair in pairs if pair in self._by_pair]
        if not known:
            return []
        shared = np.bincount(np.concatenate(known), minlength=len(self._sizes))
        alike: list[int] = np.nonzero(2 * shared >= ALIKE * (self._sizes + len(pairs)))[0].tolist()
        return alike


def words_of(text: str) -> frozenset[str]:
    """The words that count, without case and accents; where words are written without spaces, pairs of letters."""
    counted: set[str] = set()
    for word, spaced in _words_as_read(text):
        if not spaced:
            counted.update(letter_runs(word, 2))
        elif len(word) >= LETTERS:
            counted.add(word)
    return frozenset(counted)


def runs_of(text: str) -> frozenset[str]:
    """Every four letters in a row, whatever stands between them; of scripts without spaces, every two.

    >>> sorted(runs_of("Fli-ghts!"))
    ['flig', 'ghts', 'ight', 'ligh']
    """
    spaced = ""
    unspaced = ""
    for word, has_spaces in _words_as_read(text):
        if has_spaces:
            spaced += word
        else:
            unspaced += word
    return frozenset((*letter_runs(spaced, LETTERS), *letter_runs(unspaced, 2)))


def _words_as_read(text: str) -> Iterator[tuple[str, bool]]:
    """The words of a text, read as a person reads them, and whether their script puts spaces between words."""
    for word in WORD.finditer(without_accents(text).translate(LOOKS_LIKE)):
        yield word[0], not word["unspaced"]


def _spaced_words(text: str) -> list[str]:
    """The words of a text whose script puts spaces between them."""
    return [word for word, spaced in _words_as_read(text) if spaced]


def _words_put_together(words: list[str]) -> Iterator[str]:
    """Every word, and what it makes with the next, or with the one after that: a word may have been split."""
    yield from words
    for later in (1, 2):
        yield from map("".join, zip(words, words[later:], strict=False))


def _survives_a_cut(word: str) -> bool:
    return len(word) >= SHORTEST_PART


def _cut_forms(word: str) -> Iterator[str]:
    """What may be left of a word that was cut."""
    yield word[:SHORTEST_PART]
    for size in range(SHORTEST_PART + 1, min(len(word), LONGEST_WORD) + 1):
        yield from letter_runs(word, size)


def _frame(word: str) -> str:
    """The first letter and the consonants after it in order of the alphabet: swapping letters leaves it as it is.

    >>> _frame("flihgts"), _frame("flghts"), _frame("area")
    ('fghlst', 'fghlst', 'area')
    """
    consonants = sorted(set(word[1:]) - VOWELS)
    if len(consonants) < 2:
        return word
    return word[0] + "".join(consonants)


def _letter_pairs(word: str) -> frozenset[str]:
    """Every two letters in a row, the ends marked."""
    return frozenset(letter_runs(f"<{word}>", 2))


def _inverted(holding: Iterable[tuple[int, Iterable[str]]]) -> dict[str, list[int]]:
    """From each thing to the numbers of those that hold it."""
    numbers: dict[str, list[int]] = {}
    for number, held in holding:
        for thing in set(held):
            numbers.setdefault(thing, []).append(number)
    return numbers
