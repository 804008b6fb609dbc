"""A conversation as its user's turns and the tools that it has called: all that a gate reads of a history.

Four shapes of history are read: OpenAI chat messages, OpenAI Responses items, Anthropic messages and those of the
Vercel AI SDK, all as mappings. An adapter of a framework with message objects of its own turns them into one of these.

A user turn is a message of the user. One that only carries tool results is none, though Anthropic files it under the
user. Text that a harness puts between a user's words (`INJECTED`) is left out.

A turn is short where it has at most `SHORT` words ("and tomorrow?", "yes please"). By itself it says little about the
tools it needs, so it is read together with the turns before it, back to the last one that is not short. Where all of
that is but greetings and thanks ("Good morning!"), it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from unicodedata import combining, normalize

from camdf.gate.append import names_added
from camdf.gate.notes import TAG, without_note
from camdf.scorers.base import ends
from camdf.tools import viewed_tool

Messages: TypeAlias = Sequence[Mapping[str, Any]]

INJECTED = (
    "system-reminder",
    "system_reminder",
    "environment_details",
    "environment_context",
    "local-command-stdout",
    "ide_opened_file",
    "ide_selection",
    TAG,
)
"""Tags around what a harness adds to a user's message: reminders, the state of an editor, a command's output, notes."""

SHORT = 6
"""A turn of at most this many words is read together with the turns before it."""

MOST_BEFORE = 3
"""How many turns before a short one are read with it at most."""

LOOKED_AT = 10_000
"""How many characters of a turn are looked at to see whether it is short."""

READ = 10_000
"""How many characters are read of each end of a long turn: what is asked stands there, and pasted text between."""

INJECTED_IN = 100_000
"""In how many characters of each end of a message what a harness added is looked for."""

CALLS = frozenset({"tool_use", "function_call", "custom_tool_call", "mcp_call", "mcp_tool_use", "tool-call"})
"""Types of the parts that call a tool by `name`, in the AI SDK by `toolName`; chat messages have `tool_calls` instead,
of old `function_call`."""

PHRASES = {
    "en": "hi, hiya, hello, hey, heya, howdy, yo, greetings, morning, afternoon, evening, good morning, "
    "good afternoon, good evening, good day, good night, there, all, everyone, everybody, team, folks, again, "
    "how are you, how are you doing, how are you today, how is it going, how s it going, how do you do, what s up, "
    "sup, nice to meet you, you there, are you there, anyone there, is anyone there, thanks, thank you, thx, ty, "
    "cheers, a lot, very much, so much, many thanks, please, yes, yeah, yep, no, nope, ok, okay, sure, great, cool, "
    "perfect, nice, fine, good, alright, all right, got it, i see, bye, goodbye, bye bye, see you, see you later, "
    "help, help me, i need help, i need some help, can you help me, could you help me, i have a question, "
    "quick question",
    "de": "hallo, hallöchen, moin, servus, grüezi, grüß gott, grüß dich, guten morgen, guten tag, guten abend, "
    "gute nacht, morgen, tag, abend, mahlzeit, zusammen, wie geht es dir, wie geht es ihnen, wie geht s, wie gehts, "
    "danke, danke dir, danke ihnen, danke schön, dankeschön, vielen dank, besten dank, herzlichen dank, sehr, bitte, "
    "ja, nein, klar, gut, super, prima, alles klar, in ordnung, tschüss, tschau, ciao, auf wiedersehen, bis später, "
    "hilfe, ich brauche hilfe, kannst du mir helfen, können sie mir helfen, ich habe eine frage",
    "es": "hola, buenas, buenos días, buen día, buenas tardes, buenas noches, qué tal, qué hay, cómo estás, "
    "cómo está, cómo va, encantado, encantada, gracias, muchas gracias, mil gracias, por favor, sí, no, vale, claro, "
    "de acuerdo, bien, perfecto, genial, adiós, hasta luego, hasta pronto, a todos, ayuda, necesito ayuda, "
    "puedes ayudarme, me puedes ayudar, tengo una pregunta",
    "fr": "bonjour, bonsoir, salut, coucou, bonne journée, bonne soirée, bonne nuit, rebonjour, ça va, "
    "comment ça va, comment vas tu, comment allez vous, enchanté, enchantée, merci, merci beaucoup, merci bien, "
    "mille mercis, s il te plaît, s il vous plaît, svp, stp, oui, non, d accord, bien, bien sûr, parfait, super, "
    "très bien, au revoir, à bientôt, à plus tard, à tous, à toutes, aide, j ai besoin d aide, peux tu m aider, "
    "pouvez vous m aider, j ai une question",
    "ja": "こんにちは, こんにちわ, こんばんは, おはよう, おはようございます, おやすみ, おやすみなさい, もしもし, "
    "やあ, どうも, はじめまして, 初めまして, お疲れ様です, おつかれさまです, お世話になります, "
    "お世話になっております, お元気ですか, 元気ですか, 元気, よろしく, よろしくお願いします, "
    "よろしくお願いいたします, お願いします, ありがとう, ありがとうございます, ありがとうございました, "
    "どうもありがとう, どうもありがとうございます, すみません, はい, いいえ, うん, 了解, 了解です, わかりました, "
    "いいですね, さようなら, またね, じゃあね, 助けて, 手伝って, 質問があります",
}
"""What says nothing of the tools that are wanted, by language; apostrophes and hyphens are left out."""

AGREEMENTS = {
    "en": "do it, do so, do that, please do, go ahead, go for it, go on, proceed, continue, carry on, confirm, "
    "confirmed, i confirm, i agree, agreed, approve, approved, i approve, accept, accepted, i accept, correct, "
    "exactly, right, that is right, that s right, that is correct, that s correct, sounds good, looks good, "
    "that works, works for me, that is fine, that s fine, fine by me, as you suggested, as you suggest, as you say, "
    "absolutely, definitely, of course, yup, make it so, let s do it, let s go, y, k, then, now",
    "de": "mach das, mach es, mach weiter, weiter, weitermachen, nur zu, los, leg los, tu das, tu es, genau, richtig, "
    "stimmt, das stimmt, einverstanden, bestätigt, ich bestätige, ich bin einverstanden, passt, das passt, jawohl, "
    "natürlich, selbstverständlich, gern, gerne, wie du meinst, wie vorgeschlagen, so machen wir es, dann, jetzt",
    "es": "hazlo, hágalo, adelante, continúa, continúe, sigue, siga, procede, proceda, confirmo, confirmado, correcto, "
    "exacto, exactamente, así es, por supuesto, claro que sí, está bien, me parece bien, acepto, como dices, ahora",
    "fr": "vas y, allez y, fais le, faites le, fais ça, continue, continuez, poursuis, poursuivez, confirmé, "
    "je confirme, exact, exactement, c est ça, c est bon, bien entendu, absolument, j accepte, ça marche, "
    "comme tu dis, comme vous dites, comme proposé, maintenant",
    "ja": "やって, やってください, お願い, 進めて, 進めてください, 続けて, 続けてください, 実行して, "
    "実行してください, 確認しました, 承認します, その通り, その通りです, 正しい, もちろん, 結構です, 大丈夫, "
    "大丈夫です, 同意します, いいよ, いいです",
}
"""What agrees to something that somebody else has said, by language, beside the words above."""

LONGEST_GREETING = 100
"""A longer text is no greeting, and no agreement."""

SUMMARY = "summary"
"""The role of a message that stands for the user's words and is not the user's own, as an adapter files it."""

_INJECTED = re.compile(rf"<({'|'.join(INJECTED)})\b[^<>]*>.*?(?:</\1>|\Z)", re.DOTALL)
_WORDS = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Turn(NamedTuple):
    """A turn of the user."""

    subject: str
    """What it is about: its own words, after those of earlier turns where it is short; "" without any."""

    before: int = 0
    """Characters of the conversation before it: what a changed tool list makes a provider read again."""

    place: int = 0
    """Which message of the history it is."""

    greets: bool = False
    """Whether it only greets or thanks, with none before it that says what it wants."""

    keys: tuple[str, ...] = ()
    """The tools of the request whose name it is: some harnesses look a tool up that way."""

    asks: str = ""
    """What the user's own words ask for, which is mostly what it is about: without summaries and the like between them,
    and without "yes, do it", which only agrees. "" where they ask for nothing."""


class Call(NamedTuple):
    """A tool that the assistant called."""

    tool: str
    server: str = ""
    """Where it stands, if the call says so."""

    joins: bool = False
    """Whether the history has it as a tool that joined the conversation, and not as a call."""

    keys: tuple[str, ...] = ()
    """The tools of the request that it may mean."""


Event: TypeAlias = Turn | Call

OwnWords: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Says of a message under the user's name whether these are the user's own words."""


def events(messages: Messages, most: int | None = None, are_own: OwnWords | None = None) -> tuple[Event, ...]:
    """The user's turns and the assistant's calls, in order; an OverflowError beyond `most` characters.

    `are_own` says of a message under the user's name whether these are the user's own words. Without it all are, but
    for what stands beside the results of tools.

    >>> first, second = events([
    ...     {"role": "user", "content": "Book a flight"}, {"role": "assistant", "content": "Which date?"},
    ...     {"role": "user", "content": "Tomorrow please"}])
    >>> second.subject
    'Book a flight\\nTomorrow please'
    """
    events: list[Event] = []
    said: list[str] = []
    asked: list[str] = []
    before = 0
    for place, message in enumerate(messages):
        without = without_note(message).message
        size = _characters(without)
        if most is not None and before + size > most:
            raise OverflowError
        if is_turn(message):
            said.append(ends(own_words(ends(text_of(without.get("content")), INJECTED_IN)), READ))
            about = subject(said)
            asks = ""
            if _is_own(message, are_own) and not only_agrees(said[-1]):
                asked.append(said[-1])
                asks = subject(asked)
            events.append(Turn(about, before, place, greets(about), asks=asks))
        elif isinstance(message, Mapping):
            events += _calls_in(message)
        if isinstance(message, Mapping):
            events += (Call(name, joins=True) for name in names_added(message))
        before += size
    return tuple(events)


def _is_own(message: Mapping[str, Any], are_own: OwnWords | None) -> bool:
    """Whether a turn's message is the user's own. A harness writes beside results, as reminders to the model."""
    if message.get("role") != "user" or any(map(_is_result, _parts_of(message.get("content")))):
        return False
    try:
        return are_own is None or bool(are_own(message))
    except Exception:
        return False


def standing_turns(events: Sequence[Event]) -> tuple[Turn, ...]:
    """The turns of a history that keeps what joined it, but for one that nothing has come after."""
    if not any(isinstance(event, Call) and event.joins for event in events):
        return ()
    return tuple([event for event in events[:-1] if isinstance(event, Turn)])


def subject(turns: Sequence[str]) -> str:
    """What the last of some turns is about.

    >>> subject(["What is the weather in Graz?", "and tomorrow?"])
    'What is the weather in Graz?\\nand tomorrow?'
    >>> subject(["Book a flight", "Now play some quiet jazz on the living room speaker"])
    'Now play some quiet jazz on the living room speaker'
    """
    if not turns or not turns[-1]:
        return ""
    first = len(turns) - 1
    while first > 0 and len(turns) - first <= MOST_BEFORE and words_in(turns[first]) <= SHORT:
        first -= 1
    return "\n".join(filter(None, turns[first:]))


def words_in(text: str) -> int:
    """How many words a text begins with; two characters of a script without spaces count as one."""
    text = text[:LOOKED_AT]
    unspaced = len(_UNSPACED.findall(text))
    return len(_WORDS.findall(_UNSPACED.sub(" ", text))) + (unspaced + 1) // 2


def is_turn(message: Any) -> bool:
    """Whether a message is the user's own, and not a carrier of tool results."""
    if not isinstance(message, Mapping) or message.get("role") not in ("user", SUMMARY):
        return False
    parts = _parts_of(message.get("content"))
    return not parts or not all(map(_is_result, parts))


def _is_result(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "tool_result"


def are_messages(given: Any) -> bool:
    """Whether what was given as tools are messages of a conversation."""
    try:
        if not isinstance(given, (list, tuple)) or not any(map(_has_role, given)):
            return False
        return all(isinstance(message, Mapping) and viewed_tool(message).foreign for message in given)
    except Exception:
        return False


def _has_role(part: Any) -> bool:
    return isinstance(part, (dict, Mapping)) and "role" in part


def own_words(text: str) -> str:
    """A user's words without what a harness put between them.

    >>> own_words("hi\\n<system-reminder>Available skills have changed.</system-reminder>")
    'hi'
    """
    return _INJECTED.sub("", text).strip()


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content.strip()
    texts = (
        str(part.get("text", ""))
        for part in _parts_of(content)
        if isinstance(part, Mapping) and part.get("type") in ("text", "input_text")
    )
    return "\n".join(filter(None, texts)).strip()


def _parts_of(content: Any) -> Sequence[Any]:
    """The parts of a message's content; none where it is no list."""
    return content if isinstance(content, (list, tuple)) else ()


def _characters(part: Any) -> int:
    """How much text a message holds, at any depth."""
    if isinstance(part, str):
        return len(part)
    if isinstance(part, Mapping):
        return sum(_characters(inner) for key, inner in part.items() if key not in ("role", "type"))
    return sum(map(_characters, _parts_of(part)))


def _calls_in(message: Mapping[str, Any]) -> Iterator[Call]:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    for part in (*(message.get("tool_calls") or ()), *parts, message):
        if not isinstance(part, Mapping):
            continue
        name = part.get("name") or part.get("toolName")
        inner = part.get("function") or part.get("custom") or part.get("function_call")
        if part.get("type") in CALLS and name:
            yield Call(str(name), str(part.get("server_label") or part.get("server_name") or ""))
        elif isinstance(inner, Mapping) and inner.get("name"):
            yield Call(str(inner["name"]))


def only_agrees(text: str) -> bool:
    """Whether a text has no words but greetings, thanks and agreement: what it agrees to, somebody else has said.

    >>> only_agrees("Yes, please do it."), only_agrees("Gerne, mach das!"), only_agrees("はい、お願いします")
    (True, True, True)
    >>> only_agrees("Yes, send it to Bo")
    False
    """
    return len(text) <= LONGEST_GREETING and _AGREEMENT.fullmatch(_plain_words(text)) is not None


def greets(text: str) -> bool:
    """Whether a text has no words but greetings, thanks and openings; case, accents and punctuation do not matter.

    >>> greets("Hello there! How are you?"), greets("Buenos dias :)"), greets("おはよう"), greets("Book a flight")
    (True, True, True, False)
    """
    return len(text) <= LONGEST_GREETING and _GREETING.fullmatch(_plain_words(text)) is not None


def _plain_words(text: str) -> str:
    """The words of a text with a space after each, in small letters without accents."""
    letters = (letter for letter in normalize("NFKD", text.casefold()) if not combining(letter))
    return "".join(f"{word} " for word in _WORDS.findall("".join(letters)))


def _plain_phrases(by_language: Mapping[str, str]) -> list[str]:
    return [_plain_words(phrase) for phrases in by_language.values() for phrase in phrases.split(", ")]


_KNOWN = _plain_phrases(PHRASES)
_GREETING = re.compile(f"(?:{'|'.join(_KNOWN)})*")
_AGREEMENT = re.compile(f"(?:{'|'.join([*_KNOWN, *_plain_phrases(AGREEMENTS)])})*")
