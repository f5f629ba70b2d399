"""Words with marks and accents are one thing everywhere: index, syntax, highlights, completion."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit import Collection
from hummingbit.index.languages import analyzer_of
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.word_forms import other_forms

HINDI = ["किताब और अंग्रेज़ी", "किताब और कलम", "मेज़ और कुर्सी"]
FRENCH = ["crème brûlée", "crème anglaise", "tarte au sucre"]


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def collection_of(folder: Path, texts: list[str], language: str) -> Collection:
    collection = Collection.create(folder, "demo", encoder=None, language=language)
    collection.add(texts, ids=[str(number) for number in range(len(texts))])
    return collection


@pytest.mark.parametrize("language", ["hindi", "none"])
def test_vowel_signs_belong_to_words(tmp_path: Path, language: str) -> None:
    collection = collection_of(tmp_path, HINDI, language)
    assert collection.search("किताब -अंग्रेज़ी").ids == ["1"]
    assert collection.search('"और अंग्रेज़ी"').ids == ["0"]
    assert collection.search("किता*").ids == ["0", "1"]
    assert collection.search("क").ids == []
    assert collection.complete("किता") == ["किताब"]
    # People leave out the dot below.
    assert collection.search("अंग्रेजी").ids == ["0"]


@pytest.mark.parametrize(
    ("text", "query", "other"),
    [
        ("தமிழ் மொழி", "தமிழ்", "மலை மொழி"),
        ("שָׁלוֹם עוֹלָם", "שלום", "טוב עולם"),
        ("كِتَابٌ جَدِيدٌ", "كتاب", "قلم جديد"),
        ("Ελλάδα μου", "ελλαδα", "Ιταλία μου"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_points_and_accents_can_be_left_out(
    tmp_path: Path, text: str, query: str, other: str, form: str
) -> None:
    texts = [unicodedata.normalize(form, text), other]  # type: ignore[arg-type]
    collection = collection_of(tmp_path, texts, "none")
    hits = collection.search(query, highlight=True)
    assert hits.ids == ["0"]
    marks = [hits[0].highlight.passage[a:b] for a, b in hits[0].highlight.marks]  # type: ignore[union-attr]
    assert marks == [texts[0].split()[0]]
    first = text.split(maxsplit=1)[0]
    assert collection.search(f"{other} -{first}").ids == ["1"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_composed_and_decomposed_letters_are_equal(tmp_path: Path, form: str) -> None:
    texts = [unicodedata.normalize(form, text) for text in FRENCH]  # type: ignore[arg-type]
    collection = collection_of(tmp_path, texts, "french")
    for normalized in ("NFC", "NFD"):

        def found(query: str, form: str = normalized) -> list[str]:
            return collection.search(unicodedata.normalize(form, query)).ids  # type: ignore[arg-type]

        assert found("crème -brûlée") == ["1"]
        assert found("le") == found("bru") == []
        assert found('"crème brûlée"') == ["0"]
    scores = [
        [hit.score for hit in collection.search(query)] for query in (FRENCH[0], nfd(FRENCH[0]))
    ]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("highlighted", [*FRENCH[:1], nfd(FRENCH[0])])
def test_accents_that_a_query_leaves_out_are_found_and_marked(
    tmp_path: Path, highlighted: str
) -> None:
    collection = collection_of(tmp_path, [highlighted, *FRENCH[1:]], "french")
    hits = collection.search("creme brulee", highlight=True)
    assert hits.ids[0] == "0"
    found = hits[0].highlight
    assert found is not None
    assert [found.passage[a:b] for a, b in found.marks] == highlighted.split()
    assert collection.search('"creme brulee"').ids == ["0"]
    # What is written exactly comes first.
    collection.add(["creme brulee"], ids=["plain"])
    assert collection.search("crème brûlée").ids[:2] == ["0", "plain"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("my résumés", "resumes"),
        ("São Paulo", "Sao"),
        ("a déjà vu", "deja"),
        ("in Łódź", "lodz"),
        ("of Kraków", "krakow"),
        ("the smørrebrød", "smorrebrod"),
        ("cœur", "coeur"),
    ],
)
def test_english_texts_have_foreign_words(tmp_path: Path, text: str, query: str) -> None:
    collection = collection_of(tmp_path, [text, "something else"], "english")
    assert collection.search(query).ids == ["0"]


def test_letters_of_their_own_are_not_folded(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, ["hår på huvudet", "har en idé"], "swedish")
    assert collection.search("hår").ids == ["0"]
    assert collection.search("har").ids == ["1"]
    assert collection.search("ide").ids == ["1"]


@given(st.text("abcé\u0301\u0308öñ कि़ज़ क் שׁ\u05b8 كِ ё й-_.5", max_size=40))
def test_a_text_has_the_same_terms_however_its_letters_are_composed(text: str) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    analyzer = analyzer_of("none")
    assert len({tuple(other_forms(form, analyzer)) for form in forms}) == 1
    index = LexicalIndex.build(0, analyzer, [(0, text)], forms=True)
    assert len({index.weigh(form) for form in forms}) == 1
