from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder import spelling as corrections_module
from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.spelling import MAX_TEXT_LENGTH, replace_identifiers
from hummingbit.encoder.text_features import TextFeatures


def test_the_first_unknown_words_of_a_query_are_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections_module, "MAX_CORRECTIONS", 2)
    features = TextFeatures(["account", "balance"], weighting="count")
    rows, (known,) = features.transform_queries(["acount nothing acount blance balance"])
    assert known[:2] == (2, (("acount", "account"),))
    assert rows.toarray().tolist() == [[2, 1]]
    rows, (known,) = features.transform_queries(["myAccount acount blance the_balance"])
    assert known.corrected == (("myAccount", "my Account"), ("the_balance", "the balance"))
    assert rows.toarray().tolist() == [[1, 1]]


def test_unknown_identifiers_of_a_query_count_as_their_words() -> None:
    features = TextFeatures(["read", "csv", "to_csv"], weighting="count")
    rows, known = features.transform_queries(["readCsv", "to_csv", "read_cvs", "fooBar"])
    assert rows.toarray().tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert [item.corrected for item in known] == [
        (("readCsv", "read Csv"),),
        (),
        (("read_cvs", "read cvs"),),
        (),
    ]
    assert [item.recognized_terms for item in known] == [2, 1, 1, 0]


def test_the_words_of_an_identifier_are_stemmed_and_corrected() -> None:
    features = TextFeatures(["parser", "argument"], analyzer=Analyzer("visible", "english"))
    (columns, _), known = features.read_query("parsersArgumnts")
    assert columns.tolist() == [0, 1]
    assert known.corrected == (("parsersArgumnts", "parsers Argumnts"), ("argumnt", "argument"))


def bracketed(text: str) -> str:
    return replace_identifiers(text, lambda identifier, words: f"[{identifier}: {words}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("how does readCsv work", "how does [readCsv: read Csv] work"),
        ("train_test_split()", "[train_test_split: train test split]()"),
        ("MAX_LENGTH, x_1", "[MAX_LENGTH: MAX LENGTH], [x_1: x 1]"),
        ("parseHTTPServer2", "[parseHTTPServer2: parse HTTP Server 2]"),
        ("np.nanToNum", "np.[nanToNum: nan To Num]"),
        ("read csv B2B conv2d NASA Reader _private trailing_", None),
        ("größeÄndern naïveBayes 北京_大学", None),
        ("", None),
    ],
)
def test_words_of_identifiers(text: str, expected: str | None) -> None:
    assert bracketed(text) == (text if expected is None else expected)


def test_identifiers_of_more_than_128_characters_and_of_long_texts_are_left_alone() -> None:
    longest = "a" * 63 + "_" + "b" * 64
    assert bracketed(longest) != longest
    assert bracketed(longest + "b") == longest + "b"
    long_text = "readCsv ".ljust(MAX_TEXT_LENGTH + 1)
    assert bracketed(long_text) == long_text


@given(st.text(st.sampled_from("aBc_1 .ß"), max_size=20))
def test_only_letters_and_digits_of_identifiers_become_words(text: str) -> None:
    found: list[tuple[str, str]] = []

    def note(identifier: str, words: str) -> str:
        found.append((identifier, words))
        return identifier

    assert replace_identifiers(text, note) == text
    for identifier, words in found:
        assert words.replace(" ", "") == identifier.replace("_", "")
        assert " " in words
