from __future__ import annotations

import pickle
import re
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder import analyzers
from hummingbit.encoder import analyzers as scripts
from hummingbit.encoder.analyzers import (
    VISIBLE,
    WORDS,
    Analyzer,
    AnalyzerError,
    is_spaceless,
    word_characters,
)


def test_words_are_lower_case_and_of_two_characters_or_more() -> None:
    text = "A Übung: x_1 of C3PO, e.g. 42!"
    for analyzer in (WORDS, VISIBLE):
        assert analyzer.terms(text) == ["übung", "x_1", "of", "c3po", "42"]


@given(st.text(st.characters(codec="ascii")))
def test_plain_text_is_split_as_by_the_first_artifacts(text: str) -> None:
    assert VISIBLE.terms(text) == WORDS.terms(text) == re.findall(r"\b\w\w+\b", text.lower())


@given(st.text(st.characters(max_codepoint=0x24F) | st.sampled_from("’–“”…ΑΩжЯ€")))
def test_what_has_a_faster_way_is_split_as_everything_else(text: str) -> None:
    # A character of another script in front sends the text the longer way.
    assert VISIBLE.terms(f"中 {text}") == ["中", *VISIBLE.terms(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("北京大学", ["北京", "京大", "大学"]),
        ("仅1专业", ["仅", "专业"]),
        ("我 love 你们", ["我", "love", "你们"]),
        ("日本語のテキスト", ["日本", "本語", "語の", "のテ", "テキ", "キス", "スト"]),
        ("ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
        ("ที่นี่", ["ที่นี่"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("한국어 문장", ["한국어", "문장"]),
    ],
)
def test_scripts_without_spaces_become_pairs_of_characters(text: str, terms: list[str]) -> None:
    assert VISIBLE.terms(text) == terms


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ＡＢＣ１２", "abc12"),
        ("cafe\u0301", "café"),
        ("infor\u00admation", "information"),
        ("\ufb01nance", "finance"),
        ("ﾊﾝｶｸ", "ハンカク"),
        ("葛\U000e0100城", "葛城"),
        ("می\u200cخواهم", "میخواهم"),
        ("ภา\u200bษา", "ภาษา"),
    ],
)
def test_what_looks_alike_has_the_same_terms(text: str, plain: str) -> None:
    assert VISIBLE.terms(text) == VISIBLE.terms(plain)


@pytest.mark.parametrize("invisible", list("\xad\u061c\u200b\u200c\u200d\u200e\u2060\ufeff"))
def test_characters_that_nobody_sees_split_no_word(invisible: str) -> None:
    text = f"infor{invisible}mation"
    assert VISIBLE.terms(text) == ["information"]
    assert Analyzer("visible", "english").terms(text) == ["inform"]
    assert WORDS.terms(text) == ["infor", "mation"]


def test_the_former_analyzer_removes_fewer_of_them() -> None:
    split = [c for c in "\xad\u200b\u200c\u200d" if len(Analyzer("unicode").terms(f"ab{c}cd")) > 1]
    assert split == ["\u200b", "\u200c"]


@given(st.text(st.sampled_from("ab é中\xad\u200b\u200c\ufeff.\u2028")))
def test_a_text_has_the_terms_of_what_is_seen_of_it(text: str) -> None:
    seen = re.sub("[\xad\u200b\u200c\ufeff]", "", text)
    assert VISIBLE.terms(text) == VISIBLE.terms(seen)


def test_words_lose_the_endings_of_a_language() -> None:
    english, german = Analyzer.from_name("unicode+english"), Analyzer.from_name("unicode+german")
    assert english.terms("Searching searches 北京大") == ["search", "search", "北京", "京大"]
    assert german.terms("Häuser Hauses") == ["haus", "haus"]


def test_runs_of_characters_follow_the_words() -> None:
    terms = Analyzer.from_name("words+3-4grams").terms("cat on")
    assert terms == "cat on ~<ca ~cat ~at> ~<cat ~cat> ~<on ~on> ~<on>".split()


@pytest.mark.parametrize(
    "name",
    ["words", "unicode", "visible", "visible+german", "words+english+3-5grams", "unicode+2-2grams"],
)
def test_an_analyzer_is_known_by_its_name(name: str) -> None:
    analyzer = Analyzer.from_name(name)
    assert analyzer.name == name
    assert pickle.loads(pickle.dumps(analyzer)) == analyzer  # noqa: S301 - our own
    assert (analyzer.stemmer_version is None) == (analyzer.language is None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "must begin with visible, unicode or words"),
        ("english", "must begin with visible, unicode or words"),
        ("unicode+klingon", "no stemmer for 'klingon'; the languages are"),
        ("unicode+english+german", "two languages"),
        ("unicode+5-3grams", "both must be from 1 to 9"),
        ("unicode+", "no stemmer for ''"),
    ],
)
def test_other_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(AnalyzerError, match=re.escape(message)):
        Analyzer.from_name(name)


def test_threads_stem_alike() -> None:
    texts = [f"running {word}ing quickly {word}s" for word in ("search", "index", "rank")] * 50
    terms = Analyzer.from_name("unicode+english").terms
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms, texts)) == [terms(text) for text in texts]


def test_scripts_without_spaces_are_told_apart() -> None:
    assert is_spaceless("3月 of")
    assert not is_spaceless("Übung – 한국어, हिन्दी")


def test_the_characters_of_words_are_letters_marks_and_numbers_everywhere() -> None:
    # Unicode may give a character another category, but not from or to one of these.
    for part in " ".join(word_characters()).split():
        first, _, last = part.partition("-")
        for number in range(int(first, 16), int(last or first, 16) + 1):
            character = chr(number)
            assert unicodedata.category(character)[0] in "LMN" or character == "_"


any_script = st.text(
    st.characters(codec="utf-8", max_codepoint=0x3FF)
    | st.sampled_from(
        "  ,.ΣσİßéЖ\u0301\u0316\u00ad\u200b"
        "中京ガか\u3099ｶﾞ가\u1100\u1161\u11a8ㄱㅏกำั\ufdfa。、\u3000"
    )
)


@given(any_script, st.integers(1, 9))
def test_a_long_text_has_the_terms_that_it_would_have_as_a_whole(text: str, size: int) -> None:
    named = [WORDS, VISIBLE, *map(Analyzer.from_name, ("unicode+german", "words+english+2-3grams"))]
    whole = [(item.split(text), item.terms(text)) for item in named]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (analyzers, "PIECE_LENGTH"),
            (analyzers, "WORDS_AT_ONCE"),
            (scripts, "NORMALIZED_AT_ONCE"),
        ):
            patch.setattr(module, name, size)
        assert [(item.split(text), item.terms(text)) for item in named] == whole
        for item, (_, terms) in zip(named, whole, strict=True):
            assert sorted(term for some in item.term_lists(text) for term in some) == sorted(terms)


def test_no_normal_form_spans_the_places_where_a_text_is_cut() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    pairs = (unicodedata.decomposition(character).split() for character in characters)
    composed = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    assert len(composed) > 60
    for character in characters:
        first = unicodedata.normalize("NFKD", character)[0]
        if first in composed or unicodedata.combining(first):
            assert scripts.may_combine(character), hex(ord(character))


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "e" + "\u0301\u0316" * 10**5, "ก" + "\u0e31" * 10**5]
)
def test_a_text_of_one_character_with_its_marks_takes_no_square_of_its_length(text: str) -> None:
    # Squared, each of these takes minutes.
    assert VISIBLE.terms(text)


MARKED_TEXTS = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from(
        "aé \n\xad\u200bİΣﬁ①½e\u0301\u0323हिन्दीभ்தமிழ்ที่นี่가\u1112\u1161\u11ab中か\u3099כּ\u05c1"
    )
)


@given(
    MARKED_TEXTS,
    st.sampled_from(["visible", "unicode", "words", "visible+english", "words+french"]),
)
def test_spans_are_those_of_the_terms(text: str, name: str) -> None:
    analyzer = Analyzer.from_name(name)
    spans = list(analyzer.spans(text))
    assert [term for _, _, _, term in spans] == analyzer.terms(text)
    for start, end, _, term in spans:
        # What is marked is analyzed to the term: nothing is cut off, and nothing is added.
        assert 0 <= start < end <= len(text)
        assert term in analyzer.terms(text[start:end])
        assert end == len(text) or not unicodedata.combining(text[end])


def test_spans_in_a_long_text_count_from_its_beginning() -> None:
    text = "naïve cafe\u0301 ﬁne हिन्दी 北京大学 plain\n" * 500
    spans = list(VISIBLE.spans(text))
    assert [term for _, _, _, term in spans] == VISIBLE.terms(text)
    assert [text[start:end] for start, end, *_ in spans[-8:-2]] == [
        "naïve", "cafe\u0301", "ﬁne", "हिन्दी", "北京", "京大"
    ]  # fmt: skip
