"""What people say before they ask for something: greetings, thanks and openings, in five languages."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

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

LONGEST = 100
"""A longer text is no greeting."""

_WORDS = re.compile(r"[^\W_]+")


def greets(text: str) -> bool:
    """Whether a text has no words but greetings, thanks and openings; case, accents and punctuation do not matter.

    >>> greets("Hello there! How are you?"), greets("Buenos dias :)"), greets("おはよう"), greets("Book a flight")
    (True, True, True, False)
    """
    return len(text) <= LONGEST and _GREETING.fullmatch(_plain(text)) is not None


def _plain(text: str) -> str:
    """The words of a text with a space after each, in small letters without accents."""
    letters = "".join(letter for letter in normalize("NFKD", text.casefold()) if not combining(letter))
    return "".join(f"{word} " for word in _WORDS.findall(letters))


_KNOWN = [_plain(phrase) for phrases in PHRASES.values() for phrase in phrases.split(", ")]
_GREETING = re.compile(f"(?:{'|'.join(_KNOWN)})*")
