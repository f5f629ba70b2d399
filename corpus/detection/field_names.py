"""The usual names of fields in several languages, and what their values are likely to be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining, normalize

# Each list is in the order of preference. Accents are left out, as in `spelled`.
TITLE_NAMES = (
    *("title", "headline", "subject", "name", "summary"),
    *("titel", "uberschrift", "betreff", "bezeichnung"),
    *("titre", "intitule", "objet", "nom"),
    *("titulo", "titular", "asunto", "nombre", "titolo", "oggetto", "assunto"),
    *("标题", "題目", "题目", "名称", "タイトル", "件名", "제목", "заголовок"),
)
TEXT_NAMES = (
    *("text", "body", "content", "contents", "document", "sentence", "question", "query"),
    *("utterance", "description", "abstract", "article", "message", "review", "comment", "post"),
    *("inhalt", "beschreibung", "nachricht", "frage", "satz", "artikel", "kommentar", "bewertung"),
    *("texte", "contenu", "phrase", "avis", "commentaire", "corps"),
    *("texto", "contenido", "descripcion", "pregunta", "mensaje", "resena", "comentario"),
    *("testo", "contenuto", "descrizione", "domanda", "messaggio", "conteudo", "descricao"),
    *("正文", "内容", "文本", "描述", "问题", "评论", "本文", "テキスト"),
    *("내용", "본문", "텍스트", "текст", "содержание", "описание", "вопрос"),
)
LABEL_NAMES = (
    *("label", "labels", "category", "categories", "class", "topic", "topics", "intent", "genre"),
    *("genres", "tag", "tags", "section", "target", "subject_area", "department"),
    *("kategorie", "kategorien", "klasse", "thema", "themen", "rubrik", "ressort", "schlagworter"),
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
)
_LANGUAGE = re.compile(r"[a-z]{2}")
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# German writes compounds as one word.
_ID = re.compile(r".{1,12}id|.{3,}(?:nr|nummer)")


def spelled(name: str) -> str:
    """Return `name` in lower case and without accents, as the lists of this module have names."""
    decomposed = normalize("NFKD", name.strip()).replace("ß", "ss").casefold()
    kept = "".join(one for one in decomposed if not combining(one) or one in "\u3099\u309a")
    return normalize("NFC", kept)


def rank_of(name: str, usual: Sequence[str]) -> tuple[int, int] | None:
    """Return how usual a field's name is, the most usual first, or None if it is not.

    A name in `usual` comes before a name whose last word is there, such as ``product_description``
    or ``ticketText``; a language at the end does not count (``text_en``).
    """
    whole = spelled(name)
    if whole in usual:
        return 0, usual.index(whole)
    words = [spelled(word) for word in _WORD.findall(_CAMEL.sub("_", name))]
    if len(words) > 1 and _LANGUAGE.fullmatch(words[-1]) and words[-1] not in usual:
        words.pop()
    if words and words[-1] in usual:
        return 1, usual.index(words[-1])
    return None


def is_named_as_id(name: str) -> bool:
    """Return whether a field is named like an id: ``qid``, ``Nr.``, ``编号``, ``article_id``."""
    if not name.strip(" ."):
        return not name.strip()  # a column without a name, as pandas writes for its index
    own = name.rstrip(" .")
    return rank_of(own, ID_NAMES) is not None or bool(_ID.fullmatch(spelled(own)))
