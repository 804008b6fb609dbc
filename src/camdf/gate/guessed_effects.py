"""What tools may do, guessed for a human to correct: from the hints of MCP servers, and from the verbs of names.

No gate uses a guess unasked. A name is looked up by its first word, in five languages; of a Japanese name as it is
written also by its last, where the verb stands. What is not known is taken to send something to others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from unicodedata import normalize

from camdf.gate.privilege import Privilege, hinted_effect
from camdf.tools import EFFECTS, WORST, Effect, Tool

VERBS: dict[Effect, dict[str, str]] = {
    "read": {
        "en": "get list search find read show view look lookup check count describe browse inspect compare calculate "
        "compute convert validate verify summarize peek preview is has can",
        "de": "lies lesen hole holen suche suchen finde finden zeige zeigen liste auflisten abrufen anzeigen ansehen "
        "prüfe prüfen zähle zählen berechne berechnen vergleiche vergleichen nachschlagen",
        "es": "lee leer busca buscar encuentra encontrar obtén obtener muestra mostrar lista listar consulta consultar "
        "ver comprueba comprobar verifica verificar cuenta contar calcula calcular compara comparar",
        "fr": "lis lire cherche chercher recherche rechercher trouve trouver obtiens obtenir affiche afficher montre "
        "montrer liste lister consulte consulter vérifie vérifier voir compte compter calcule calculer compare "
        "comparer",
        "ja": "yomu yomi kensaku sagasu shutoku hyouji hyoji ichiran kakunin sanshou sansho 読む 読み取り 読取 検索 "
        "探す 取得 表示 一覧 確認 参照 閲覧 計算 比較",
    },
    "write": {
        "en": "create add new make update edit modify change set write put insert append delete remove clear erase "
        "move rename copy archive save store mark tag label pin enable disable start stop pause resume open close "
        "cancel schedule reschedule assign restore undo turn play lock unlock merge replace reset",
        "de": "erstelle erstellen anlegen lege füge hinzufügen ändere ändern bearbeite bearbeiten setze setzen "
        "schreibe schreiben lösche löschen entferne entfernen verschiebe verschieben kopiere kopieren umbenennen "
        "benenne speichere speichern archiviere archivieren markiere markieren starte starten stoppe stoppen "
        "storniere stornieren aktualisiere aktualisieren",
        "es": "crea crear añade añadir agrega agregar actualiza actualizar edita editar modifica modificar cambia "
        "cambiar pon poner escribe escribir borra borrar elimina eliminar quita quitar mueve mover copia copiar "
        "renombra renombrar guarda guardar archiva archivar marca marcar inicia iniciar detén detener cancela cancelar",
        "fr": "crée créer ajoute ajouter modifie modifier change changer mets mettre écris écrire supprime supprimer "
        "efface effacer enlève enlever déplace déplacer copie copier renomme renommer enregistre enregistrer archive "
        "archiver marque marquer démarre démarrer arrête arrêter annule annuler",
        "ja": "sakusei tsukuru tsuika henkou henko koushin koshin sakujo kesu idou hozon touroku toroku settei "
        "kakikomu 作成 作る 追加 変更 更新 編集 削除 消去 移動 複製 保存 登録 設定 書く 書き込み 開始 停止 取消",
    },
    "egress": {
        "en": "send post publish share reply respond forward email mail message notify invite call tweet upload push "
        "submit export pay transfer buy order purchase book reserve comment announce broadcast sync run execute "
        "request fetch download query",
        "de": "sende senden schicke schicken verschicken versenden teile teilen veröffentliche veröffentlichen "
        "antworte antworten weiterleiten leite einladen lade benachrichtige benachrichtigen hochladen überweise "
        "überweisen bezahle bezahlen zahle zahlen kaufe kaufen bestelle bestellen buche buchen reserviere reservieren "
        "ausführen",
        "es": "envía enviar manda mandar publica publicar comparte compartir responde responder contesta contestar "
        "reenvía reenviar invita invitar notifica notificar avisa avisar sube subir paga pagar transfiere transferir "
        "compra comprar pide pedir reserva reservar llama llamar comenta comentar ejecuta ejecutar descarga descargar",
        "fr": "envoie envoyer publie publier partage partager réponds répondre transfère transférer transmets "
        "transmettre invite inviter notifie notifier préviens prévenir téléverse téléverser paie paye payer vire virer "
        "achète acheter commande commander réserve réserver appelle appeler commente commenter exécute exécuter "
        "télécharge télécharger",
        "ja": "soushin soshin okuru toukou toko kyouyuu kyoyu henshin tensou tenso shoutai shotai tsuuchi tsuchi "
        "shiharai shiharau furikomi kounyuu konyu chuumon chumon yoyaku jikkou jikko 送信 送る 送金 投稿 公開 共有 "
        "返信 転送 招待 通知 支払い 支払 振込 購入 注文 予約 実行 電話",
    },
}
"""Verbs by what they do and by language: imperatives and infinitives, and Japanese in letters and as it is written."""

ADDRESSES = frozenset({"url", "urls", "uri", "endpoint", "webhook"})
"""Parameters with which a tool that reads can also send: to an address that the model writes."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_JAPANESE = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")


class GuessedEffect(NamedTuple):
    """What a tool may do, and what says so."""

    tool: str
    """Its full name."""

    effect: Effect
    because: str


class OpenPair(NamedTuple):
    """A tool that reads what is private, and one that can send it, once both may run."""

    reads: str
    sends: str


def guessed_effect(tool: Tool) -> GuessedEffect:
    """What a tool may do: as its hints say or its verb, whichever is worse.

    >>> [guessed_effect(Tool(name)).effect for name in ("searchMail", "lösche_termin", "enviar_correo", "frobnicate")]
    ['read', 'write', 'egress', 'egress']
    >>> guessed_effect(Tool("メール送信")).because
    'its name'
    """
    known: list[tuple[Effect, str]] = []
    if _has_hints(tool):
        known.append((hinted_effect(tool), "its hints"))
    if by_name := effects_of_name(tool.name):
        known.append((_worst(by_name), "its name"))
    effect, because = max(known, key=lambda pair: EFFECTS.index(pair[0]), default=(WORST, "nothing says what it does"))
    if effect == "read" and _takes_address(tool):
        return GuessedEffect(tool.full_name, WORST, "it takes an address")
    return GuessedEffect(tool.full_name, effect, because)


def effects_of_name(name: str) -> set[Effect]:
    """What the verb of a name means; several where languages disagree, and none where it is not known."""
    words = _WORDS.findall(_composed(name))
    if not words:
        return set()
    first = words[0]
    if not _JAPANESE.fullmatch(first):
        return {effect for effect, verbs in _BY_EFFECT.items() if _plain(first) in verbs}
    ends = (first, words[-1])
    return {effect for effect, verbs in _WRITTEN.items() if ends[0].startswith(verbs) or ends[1].endswith(verbs)}


def open_pairs(tools: Iterable[Tool], privilege: Privilege) -> list[OpenPair]:
    """Which tools read freely, each with those that can send what it reads, as a privilege has them.

    No such pair runs by itself: the one that sends has to be asked for. Who asks for it sends what was read before.
    """
    listed = list(tools)
    effects = {tool.full_name: privilege.effect_of(tool, (tool.full_name, tool.name)) for tool in listed}
    reads = [name for name, effect in effects.items() if effect == "read" and effect in privilege.free]
    sends = [name for name, effect in effects.items() if effect == "egress"]
    return [OpenPair(read, send) for read in reads for send in sends]


def _has_hints(tool: Tool) -> bool:
    hints = tool.further().get("annotations")
    return isinstance(hints, Mapping) and not {"readOnlyHint", "openWorldHint"}.isdisjoint(hints)


def _takes_address(tool: Tool) -> bool:
    properties = tool.schema.get("properties")
    if not isinstance(properties, Mapping):
        return False
    return any(_is_address(str(name)) for name in properties)


def _is_address(parameter: str) -> bool:
    return any(_plain(word) in ADDRESSES for word in _WORDS.findall(_composed(parameter)))


def _worst(effects: Collection[Effect]) -> Effect:
    return max(effects, key=EFFECTS.index)


def _composed(text: str) -> str:
    """A text whose Latin letters have no accents, and whose Japanese ones are whole."""
    bare = "".join(letter for letter in normalize("NFKD", text) if not "\u0300" <= letter <= "\u036f")
    return normalize("NFC", bare)


def _plain(word: str) -> str:
    return _composed(word).lower()


def _spellings(verb: str) -> set[str]:
    """A verb without accents, and as German writes it where there are none."""
    digraphs = verb.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue").replace("ñ", "ny")
    return {_plain(verb), _plain(digraphs)}


_BY_EFFECT: dict[Effect, frozenset[str]] = {
    effect: frozenset(spelling for verb in " ".join(languages.values()).split() for spelling in _spellings(verb))
    for effect, languages in VERBS.items()
}
_WRITTEN: dict[Effect, tuple[str, ...]] = {
    effect: tuple(verb for verb in verbs if _JAPANESE.fullmatch(verb)) for effect, verbs in _BY_EFFECT.items()
}
