from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.index.highlights import PASSAGE, excerpt, highlight
from hummingbit.index.lexical import ANALYZERS
from hummingbit.index.records import Query
from tests.support.collections import text_collection

ENGLISH = ANALYZERS["english"]


def shown(text: str, weights: dict[str, float]) -> list[str]:
    found = highlight(text, weights, ENGLISH)
    assert text[found.start : found.start + len(found.passage)] == found.passage
    return [found.passage[start:end] for start, end in found.marks]


def test_terms_are_marked_in_whatever_form_they_come() -> None:
    text = "Searching is what a search engine does; research is something else."
    assert shown(text, {"search": 1.0, "engin": 1.0}) == ["Searching", "search", "engine"]


def test_words_are_marked_with_the_characters_in_them_that_nobody_sees() -> None:
    text = "Infor\xadmation retrie\u200bval, ret"
    assert shown(text, {"inform": 1.0, "retriev": 1.0}) == ["Infor\xadmation", "retrie\u200bval"]


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("यह हिन्दी भाषा है", "हिन्दी", ["हिन्दी"]),
        ("இது தமிழ் மொழி", "மொழி தமிழ்", ["தமிழ்", "மொழி"]),
        ("এটি বাংলা ভাষা", "বাংলা", ["বাংলা"]),
        ("هٰذَا كِتَابٌ جَدِيدٌ", "كِتَابٌ", ["كِتَابٌ"]),
        ("שָׁלוֹם עוֹלָם", "עוֹלָם", ["עוֹלָם"]),
        ("un re\u0301sume\u0301 court", "résumé", ["re\u0301sume\u0301"]),
        ("un résumé court", "re\u0301sume\u0301", ["résumé"]),
        (
            "tie\u0302\u0301ng Vie\u0323\u0302t",
            "tiếng việt",
            ["tie\u0302\u0301ng", "Vie\u0323\u0302t"],
        ),
        ("ภาษาไทยที่นี่", "ที่นี่", ["ที่นี่"]),
        ("カ\u3099ラス", "ガラス", ["カ\u3099ラス"]),
        ("می\u200cخواهم بروم", "می\u200cخواهم", ["می\u200cخواهم"]),
        ("a ﬁne word", "fine", ["ﬁne"]),
    ],
)
def test_words_of_scripts_with_marks_are_marked_whole(
    text: str, query: str, marked: list[str]
) -> None:
    assert shown(text, dict.fromkeys(ENGLISH.terms(query), 1.0)) == marked


@given(
    st.text("abआहिन्दी தமிழ்כּ\u05c1e\u0301\u0323\xad\u200d ", max_size=600),
    st.sampled_from(["words", "english"]),
)
def test_no_mark_and_no_passage_parts_a_character_from_its_marks(text: str, name: str) -> None:
    weights = dict.fromkeys(ANALYZERS[name].terms(text[::2]), 1.0)
    found = highlight(text, weights, ANALYZERS[name])
    bounds = [found.start, found.start + len(found.passage)]
    bounds += [found.start + bound for mark in found.marks for bound in mark]
    for bound in bounds:
        follows_mark = 0 < bound < len(text) and unicodedata.category(text[bound])[0] == "M"
        # A mark without a letter before it is a character of its own.
        before = text[:bound].rstrip("\xad\u200d")[-1:]
        assert not follows_mark or not before or before.isspace()


def test_the_passage_is_where_the_terms_lie_together() -> None:
    filler = "nothing of interest " * 30
    text = f"losses {filler} the cross entropy loss of a batch {filler} entropy"
    weights = {"cross": 2.0, "entropi": 2.0, "loss": 1.0}
    found = highlight(text, weights, ENGLISH)
    assert shown(text, weights) == ["cross", "entropy", "loss"]
    assert len(found.passage) <= PASSAGE
    assert text[found.start - 1] == " "
    assert text[found.start + len(found.passage)] == " "


def test_a_rare_term_is_worth_more_than_many_frequent_ones() -> None:
    text = "the the the the" + " x" * 400 + " axolotl"
    assert shown(text, {"the": 0.1, "axolotl": 5.0}) == ["axolotl"]


def test_without_a_match_it_is_the_beginning() -> None:
    text = "word " * 100
    found = highlight(text, {"absent": 1.0}, ENGLISH)
    assert (found.start, found.marks) == (0, [])
    assert found.passage == ("word " * 48).strip()
    assert highlight("", {"absent": 1.0}, ENGLISH).passage == ""


def test_markup_is_left_as_it_is() -> None:
    assert shown("<b>loss</b> & more", {"loss": 1.0}) == ["loss"]


@given(
    st.text(alphabet="ab \n.é中<", max_size=600),
    st.sets(st.sampled_from(["aa", "ab", "ba", "aab"]), min_size=1),
)
def test_marks_are_words_of_the_query_in_order(text: str, terms: set[str]) -> None:
    found = highlight(text, dict.fromkeys(terms, 1.0), ANALYZERS["words"])
    assert text[found.start : found.start + len(found.passage)] == found.passage
    assert len(found.passage) <= max(PASSAGE, len(text.split(maxsplit=1)[0]) if text.split() else 0)
    ends = [0, *(end for _, end in found.marks)]
    for before, (start, end) in zip(ends, found.marks, strict=False):
        assert before <= start < end <= len(found.passage)
        assert found.passage[start:end].lower() in terms


@pytest.mark.parametrize(
    ("ranking", "query", "marked"),
    [
        ("bm25", "what is the history of bread", ["history", "bread"]),
        ("hamming", "what is the history of bread", ["history", "bread"]),
        ("hybrid", "what is the history of bread", ["history", "bread"]),
        ("bm25", "the of", ["The", "of", "the"]),
        ("bm25", '"history of" bread', ["history", "of", "bread"]),
        ("hamming", '"history of" bread', ["history", "of", "bread"]),
        ("bm25", "the absent", []),
    ],
)
def test_stop_words_are_marked_only_in_phrases_and_where_a_query_has_no_other_words(
    tmp_path: Path, ranking: str, query: str, marked: list[str]
) -> None:
    text = "The history of bread is what the fans know"
    collection = text_collection(tmp_path)
    collection.upsert([Document(id="d", text=text), Document(id="e", text="Matrix and flour")])
    (hits,) = collection.search([Query(text=query)], 2, ranking=ranking, highlight=True).hits
    by_id = {hit.id: hit.highlight for hit in hits}
    assert by_id["d"] is not None
    passage, _, marks = by_id["d"]
    assert sorted(passage[start:end] for start, end in marks) == sorted(marked)


def test_the_stop_words_are_those_of_the_collections_language(tmp_path: Path) -> None:
    collection = text_collection(tmp_path)
    collection.set_language("german")
    collection.upsert([Document(id="d", text="Die Geschichte der Mode, was man so trug")])
    (hits,) = collection.search(
        [Query(text="die Mode was")], 1, ranking="bm25", highlight=True
    ).hits
    assert hits[0].highlight is not None
    passage, _, marks = hits[0].highlight
    assert [passage[start:end] for start, end in marks] == ["Mode"]


def test_stems_of_the_collection_are_marked_before_its_words_are_indexed(tmp_path: Path) -> None:
    text = "Die Matrix der Kinder liegt nicht im Garten, und das Kind liest sie auf dem Weg."
    collection = text_collection(tmp_path)
    collection.set_ranking("hamming")
    collection.set_language("german")
    collection.upsert([Document(id="d", text=text)])
    (hits,) = collection.search([Query(text="matrix Gartens")], 1, highlight=True).hits
    assert hits[0].highlight is not None
    passage, _, marks = hits[0].highlight
    assert [passage[start:end] for start, end in marks] == ["Matrix", "Garten"]


@given(
    st.text("ab \n中", max_size=80),
    st.integers(20, 40),
    st.integers(0, 80),
)
def test_an_excerpt_is_a_line_of_the_text_around_a_position(text: str, width: int, at: int) -> None:
    whole = " ".join(text.split())
    shown = excerpt(text, width, min(at, len(text)))
    assert len(shown) <= width
    assert shown.removeprefix("… ").removesuffix(" …") in whole
    assert shown == whole or len(whole) > width


def test_an_excerpt_shows_the_word_at_its_position_whole() -> None:
    words = [f"word{i}" for i in range(100)]
    text = "\n ".join(words)
    for word in words:
        assert word in excerpt(text, 30, text.index(word)).split()
    assert excerpt(text, 30).startswith("word0 word1")
    assert excerpt("中" * 100, 30, 50) == "… " + "中" * 26 + " …"
