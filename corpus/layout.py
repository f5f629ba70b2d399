"""The layout of a source: which of its fields hold the id, the text and the label."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import combining, normalize

from hummingbit.corpus.document import CONTENT_FIELDS, FIELDS, DocumentError
from hummingbit.corpus.labels import id_of, names_of
from hummingbit.corpus.lines import ReadError
from hummingbit.foundation.errors import abbreviate

# The usual names of fields in several languages, and what their values are likely to be.


# Each list is in the order of preference. Accents are left out, as in `spelled`.
TITLE_NAMES = (
    *("title", "headline", "subject", "name", "summary"),
    *("titel", "uberschrift", "betreff", "bezeichnung"),
    *("titre", "intitule", "objet", "nom"),
    *("rubrik", "overskrift", "tittel", "otsikko", "onderwerp", "tytuł", "nazwa", "nazev"),
    *("titulo", "titular", "asunto", "nombre", "titolo", "oggetto", "assunto"),
    *("标题", "題目", "题目", "名称", "タイトル", "件名", "제목", "заголовок"),
)
TEXT_NAMES = (
    *("text", "body", "content", "contents", "document", "sentence", "question", "query"),
    *("utterance", "description", "abstract", "article", "message", "review", "comment", "post"),
    *("inhalt", "beschreibung", "nachricht", "frage", "satz", "artikel", "kommentar", "bewertung"),
    *("beskrivning", "innehall", "brodtext", "beskrivelse", "indhold", "innhold", "tekst"),
    *("kuvaus", "teksti", "omschrijving", "beschrijving", "inhoud", "bericht", "vraag"),
    *("opis", "tresc", "treść", "pytanie", "popis", "obsah", "aciklama", "acıklama", "metin"),
    *("texte", "contenu", "phrase", "avis", "commentaire", "corps"),
    *("texto", "contenido", "descripcion", "pregunta", "mensaje", "resena", "comentario"),
    *("testo", "contenuto", "descrizione", "domanda", "messaggio", "conteudo", "descricao"),
    *("正文", "内容", "文本", "描述", "问题", "评论", "本文", "テキスト"),
    *("내용", "본문", "텍스트", "текст", "содержание", "описание", "вопрос"),
)
LABEL_NAMES = (
    *("label", "labels", "category", "categories", "class", "topic", "topics", "intent", "genre"),
    *("genres", "tag", "tags", "keyword", "keywords", "section", "target", "subject_area"),
    *("department",),
    *("kategorie", "kategorien", "klasse", "thema", "themen", "rubrik", "ressort", "schlagworter"),
    *("kategori", "luokka", "kategoria", "avdelning", "afdeling", "etykieta"),
    *("categorie", "classe", "theme", "etiquette", "rubrique", "sujet"),
    *("categoria", "clase", "tema", "etiqueta", "seccion", "argomento", "etichetta", "secao"),
    *("类别", "分类", "标签", "类目", "主题", "類別", "カテゴリ", "ラベル", "카테고리", "분류"),
    *("категория", "метка", "тема", "рубрика"),
)
ID_NAMES = (
    *("id", "key", "uuid", "guid", "identifier", "nr", "no", "num", "number", "ref", "index"),
    *("nummer", "kennung", "schlussel", "numero", "identifiant", "cle", "identificador", "clave"),
    *("codigo", "编号", "序号", "主键", "番号", "번호", "номер", "unnamed: 0"),
    *("#", "nro", "n°", "idx", "row", "lfd", "rownum"),
    *("isbn", "issn", "doi", "sku", "ean", "asin"),
    *("cislo", "numer", "lp", "sorszam"),
)
# Before a word for "name", these say that it is the name of a person, which is no title.
_PERSONS = frozenset(
    "author writer reviewer user customer client contact sender recipient employee agent owner"
    " speaker teacher student patient member person people first last middle full given family sur"
    " nick screen display autor autorin verfasser kunde kunden benutzer absender vor nach auteur"
    " utilisateur prenom autore utente usuario cliente forfatter forfattare klant klient uzivatel"
    " uzytkownik zakaznik".split()
)
_NAMES = tuple("name names nom nombre nome navn namn naam nazwa nazwisko jmeno".split())
_SUFFIX = re.compile(r"[a-z]{2}|html|markdown|plain")
_NAME_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# German writes compounds as one word.
_ID = re.compile(r".{1,12}id|.{3,}(?:nr|nummer)")


def spelled(name: str) -> str:
    """Return `name` in lower case and without accents, as the lists of this module have names."""
    decomposed = normalize("NFKD", name.strip()).replace("ß", "ss").casefold()
    kept = "".join(
        character
        for character in decomposed
        if not combining(character) or character in "\u3099\u309a"
    )
    return normalize("NFC", kept)


def rank_of(name: str, usual: Sequence[str]) -> tuple[int, int] | None:
    """Return how usual a field's name is, the most usual first, or None if it is not.

    A name in `usual` comes before a name whose last word is there, such as ``product_description``
    or ``ticketText``; a language or a format at the end does not count (``text_en``,
    ``body_html``).
    """
    whole = spelled(name)
    if whole in usual:
        return 0, usual.index(whole)
    words = [spelled(word) for word in _NAME_WORD.findall(_CAMEL.sub("_", name))]
    while len(words) > 1 and _SUFFIX.fullmatch(words[-1]) and words[-1] not in usual:
        words.pop()
    if words and words[-1] in usual:
        return 1, usual.index(words[-1])
    return None


def is_named_as_person(name: str) -> bool:
    """Return whether a field is named like the name of a person: ``author name``, ``userName``."""
    words = [spelled(word) for word in _NAME_WORD.findall(_CAMEL.sub("_", name))] or [""]
    words.append(words[-1].removesuffix("name"))  # of one word, such as "username"
    return words[-2].endswith(_NAMES) and not _PERSONS.isdisjoint(words)


def is_named_as_id(name: str) -> bool:
    """Return whether a field is named like an id: ``qid``, ``Nr.``, ``编号``, ``article_id``."""
    if not name.strip(" ."):
        return not name.strip()  # a column without a name, as pandas writes for its index
    own = name.rstrip(" .")
    return rank_of(own, ID_NAMES) is not None or bool(_ID.fullmatch(spelled(own)))


# Texts in HTML, and what a browser would show of them.


HIDDEN = frozenset({"script", "style", "template", "title"})
"""Elements whose content a browser does not show in the page."""
CELLS = frozenset({"td", "th"})
BLOCKS = frozenset(
    "address article aside blockquote br caption dd div dl dt figcaption figure footer form"
    " h1 h2 h3 h4 h5 h6 header hr li main nav ol option p pre section table tbody tfoot thead tr"
    " ul".split()
)
"""Elements that begin and end a line."""
INLINE = frozenset("a abbr b cite code em font i img small span strong sub sup u".split())
_KNOWN = "|".join(sorted(BLOCKS | CELLS | INLINE | HIDDEN))
_KNOWN_TAG = re.compile(rf"</?(?:{_KNOWN})(?:\s[^<>]*)?/?>", re.IGNORECASE)
# A tag, a comment or a declaration. No part of the pattern can pass over a second "<", and none is
# matched in two ways, so that the time is proportional to the length of any text.
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][a-zA-Z0-9-]*+)(?:[\s/](?:"[^"<]*+"|'[^'<]*+'|[^'"<>])*+)?+>"""
    r"|<!--|<[!?][^<>]*+>"
)
_LINE_END = "\0"
"""Not a line end of the source, which is only a space."""


def is_html(texts: Sequence[str]) -> bool:
    """Tell whether at least half of `texts`, and one of them, have a tag of HTML."""
    tagged = sum(_KNOWN_TAG.search(text) is not None for text in texts)
    return 0 < len(texts) <= 2 * tagged


def plain_text(markup: str) -> str:
    """Return the text that a browser shows of HTML.

    Blocks such as paragraphs are on lines of their own, character references are decoded, and white
    space is collapsed.
    """
    if "<" not in markup and "&" not in markup:
        return markup
    text = "".join(_shown(markup.replace(_LINE_END, " ")))
    lines = (" ".join(line.split()) for line in text.split(_LINE_END))
    return "\n".join(filter(None, lines))


def _shown(markup: str) -> Iterator[str]:
    """Yield the text between tags and, for the tags that separate it, line ends and spaces."""
    from html import unescape  # noqa: PLC0415 - its tables are large, and few texts are HTML

    at = 0
    while (tag := _TAG.search(markup, at)) is not None:
        yield unescape(markup[at : tag.start()])
        at = tag.end()
        name = (tag["name"] or "").lower()
        if name in BLOCKS:
            yield _LINE_END
        elif name in CELLS:
            yield " "
        elif name in HIDDEN and not tag["end"]:
            end = re.compile(rf"</{name}\b", re.IGNORECASE).search(markup, at)
            at = len(markup) if end is None else end.start()
        elif tag[0] == "<!--":
            end_of_comment = markup.find("-->", at)
            at = len(markup) if end_of_comment < 0 else end_of_comment + 3
    yield unescape(markup[at:])


# The layout of a source: which of its fields hold the id, the text and the label.


Record = dict[str, Any]

_FIELDS = frozenset(FIELDS)


IN_LIST = "[]."
"""What stands between the name of a list of objects and that of a field of theirs."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which fields of a source's records hold the parts of a document.

    A part whose field is None is in the field of its own name (``id``, ``text``, ``label`` …).
    ``meta.body`` is the field ``body`` of the object in ``meta``, unless a field has that whole
    name. ``paragraphs[].context`` is the field ``context`` of each object in the list
    ``paragraphs``, and each is a document of its own, with the other fields of the record.
    Several text fields are joined, one on each line. The remaining fields go to the payload:
    all of them, or those of `payload_fields`. The label's field goes there too, so that filters can
    use its name. If `html`, texts are in HTML, and documents have its text without the tags.
    `encoding` and `has_header` are for CSV, TSV and plain text; an `encoding` of None is detected.
    """

    id_field: str | None = None
    text_fields: tuple[str, ...] = ()
    label_field: str | None = None
    payload_fields: tuple[str, ...] | None = None
    encoding: str | None = None
    has_header: bool = True
    html: bool = False

    @property
    def in_list(self) -> str | None:
        """The path of the list whose objects are documents, such as ``paragraphs``, or None."""
        paths = [name.rpartition(IN_LIST)[0] for name in self.text_fields if IN_LIST in name]
        return max(paths, key=len, default=None)

    def parts(self, record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return a record for each object of the list :attr:`in_list`; itself if it has no list.

        Each has the other fields of the record. Those of the object have its path, such as
        ``paragraphs[].context``, if the layout names that, or else their own names.
        """
        named = {*self.text_fields, self.id_field, self.label_field}
        return _parts(record, "", (self.in_list or "").split(IN_LIST), named)

    @property
    def is_plain(self) -> bool:
        """Whether every part of a document is in the field of its own name, as it is."""
        fields = (self.id_field, self.label_field, self.payload_fields)
        return not self.text_fields and fields == (None, None, None) and not self.html

    def check(self, names: Collection[str], source: str) -> None:
        """Check that a source with the columns `names` fits this layout.

        Raises:
            ReadError: if a field of the layout is not a column, or no column holds content.
        """
        fields = (self.id_field, *self.text_fields, self.label_field, *(self.payload_fields or ()))
        columns = ", ".join(map(repr, names))
        for field in fields:
            if field is not None and not {field, field.partition(".")[0]} & {*names}:
                raise ReadError(f"{source}: has no field {field!r}; it has {columns}")
        if not self.text_fields and not set(names) & set(CONTENT_FIELDS):
            contents = ", ".join(CONTENT_FIELDS)
            message = f"has none of the fields {contents}; it has {columns}"
            raise ReadError(f"{source}: {message}. Name the field of the text with --text-field")

    def document_record(self, raw: Mapping[str, Any], default_id: str | None) -> Mapping[str, Any]:
        """Return `raw` in the form that :func:`hummingbit.corpus.document.parse_document` takes.

        A record without an id gets `default_id`. Ids and labels become their names
        (:mod:`hummingbit.corpus.labels`); a blank label is none. The payload keeps the value of the
        label's field.

        Raises:
            DocumentError: if a label has no name.
        """
        if self._is_document(raw):
            return raw
        rest = dict(raw)
        record: Record = {}
        id_ = _take(rest, "id" if self.id_field is None else self.id_field)
        record["id"] = default_id if id_ is None else _id_name(id_)
        self._move_content(rest, record)
        if self.html and isinstance(record.get("text"), str):
            record["text"] = plain_text(record["text"])
        self._move_labels(rest, record)
        own_payload = rest.pop("payload", None)
        if self.payload_fields is not None:
            rest = {name: raw[name] for name in self.payload_fields if name in raw}
        # Only JSON has nulls: rows of tables lack the field. A filter tells null and missing apart.
        payload = rest
        if own_payload is not None and not isinstance(own_payload, Mapping):
            record["payload"] = own_payload  # parse_document refuses it
        elif payload or own_payload:
            record["payload"] = {**payload, **(own_payload or {})}
        return record

    def _is_document(self, raw: Mapping[str, Any]) -> bool:
        """Return whether a record, like most, already has the form of a document."""
        if not self.is_plain:
            return False
        if not raw.keys() <= _FIELDS or type(raw.get("id")) is not str or "labels" in raw:
            return False
        label = raw.get("label", "none")
        return type(label) is str and bool(label.strip())

    def _move_content(self, rest: Record, record: Record) -> None:
        if self.text_fields:
            self.move_text(rest, record)
            return
        for name in CONTENT_FIELDS:
            if name in rest:
                record[name] = rest.pop(name)

    def move_text(self, rest: Record, record: Record) -> None:
        """Take the text fields out of `rest`, and put their text, if there is one, in `record`."""
        parts = [_take(rest, name) for name in self.text_fields]
        invalid = [part for part in parts if isinstance(part, Mapping | list | tuple | bool)]
        if invalid:
            record["text"] = invalid[0]  # parse_document refuses it
        elif any(part is not None for part in parts):
            record["text"] = "\n".join(str(part) for part in parts if part not in (None, ""))

    def _move_labels(self, rest: Record, record: Record) -> None:
        field = self.label_field
        usual: Record = {name: rest.pop(name) for name in ("label", "labels") if name in rest}
        # A field that is named comes in place of the usual ones: a label of theirs in the payload
        # would hide this one.
        given = usual if field is None else {field: usual.get(field, value_at(rest, field))}
        named = {name: label_names(value, name) for name, value in given.items()}
        several = [names for names in named.values() if names]
        if len(several) > 1:
            record.update(usual)  # parse_document refuses both
        elif several:
            record["labels"] = list(several[0])


def _parts(
    record: Mapping[str, Any], above: str, lists: Sequence[str], named: Collection[str | None]
) -> list[Mapping[str, Any]]:
    """Return a record for each object in the first of nested `lists`, and in those below it."""
    name, *deeper = lists
    entries = record.get(name)
    if not isinstance(entries, list):
        return [record]
    objects = [record for record in entries if isinstance(record, Mapping)]
    rest = {key: value for key, value in record.items() if key != name}
    path = f"{above}{name}{IN_LIST}"
    parts: list[Mapping[str, Any]] = []
    for entry in objects:
        for inner in _parts(entry, path, deeper, named) if deeper else [entry]:
            fields = {
                f"{path}{key}" if f"{path}{key}" in named or key in rest else key: value
                for key, value in inner.items()
            }
            parts.append({**rest, **fields})
    return parts


class Numbering:
    """Gives ids to the documents of a source without ids: ``NAME:LINE``."""

    def __init__(self, name: str, notice: Callable[[str], object] | None) -> None:
        """`notice` is called once, if the first record has no id."""
        self._name = name
        self._notice = notice
        self._is_on: bool | None = None

    def default_id(self, has_id: bool, line: int) -> str | None:
        """Return the id for the record on `line`, or None if records have ids.

        The first record decides. If it has an id, a later record without one is an error.
        """
        if self._is_on is None:
            self._is_on = not has_id
            if self._is_on and self._notice is not None:
                first = f"{self._name}:{line}"
                self._notice(f"documents have no id; they are numbered by line, from {first}")
        return f"{self._name}:{line}" if self._is_on else None


def value_at(record: Mapping[str, Any], name: str | None) -> Any:
    """Return what a record holds in a field, or at a path such as ``meta.body``, or None."""
    if name is None or name in record:
        return None if name is None else record[name]
    head, dot, rest = name.partition(".")
    below = record.get(head)
    return value_at(below, rest) if dot and isinstance(below, Mapping) else None


def _take(record: Record, name: str) -> Any:
    """Remove what :func:`value_at` returns, and return it; objects inside `record` stay as are."""
    head, dot, rest = name.partition(".")
    below = record.get(head)
    if name in record or not dot or not isinstance(below, Mapping):
        return record.pop(name, None)
    record[head] = below = dict(below)
    value = _take(below, rest)
    if not below:
        del record[head]
    return value


def _id_name(value: object) -> object:
    """Return the name of an id; what has none, or is a text, is returned for its check."""
    try:
        return value if isinstance(value, str) else id_of(value)
    except ValueError:
        return value


def label_names(value: object, field: str) -> tuple[str, ...]:
    """Return the names of the label or labels of a field.

    Raises:
        DocumentError: if one has no name.
    """
    try:
        if field == "labels" and isinstance(value, str) and value.strip():
            raise ValueError(f"is {abbreviate(value)}; it must be a list")
        return names_of(value)
    except ValueError as error:
        raise DocumentError(field, str(error)) from None
