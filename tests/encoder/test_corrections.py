from __future__ import annotations

from collections.abc import Sequence

import numpy as np
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


class Words:
    """The words of a few texts, by which unknown words of queries are read."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def has_word(self, word: str) -> bool:
        return any(word in text.split() for text in self._texts)

    def has_prefix(self, word: str) -> bool:
        return any(part.startswith(word) for text in self._texts for part in text.split())

    def correct(self, word: str, others: Sequence[str]) -> str | None:  # noqa: ARG002
        return {"hookz": "hooks"}.get(word)

    def contexts(self, word: str) -> list[str]:
        return [text for text in self._texts if word in text]

    def share(self, word: str) -> float:
        return sum(word in text.split() for text in self._texts) / len(self._texts)


def test_a_word_that_only_documents_know_is_read_as_the_terms_beside_it() -> None:
    """Never as its look-alike: `hooks` is one edit from `looks`."""
    vocabulary = ["looks", "fish", "line", "the", "coat", "bait"]
    features = TextFeatures(vocabulary, weighting="count")
    words = Words("the fish hooks line", "the hooks bait fish", "the coat", "the looks", "the line")
    rows, terms = features.transform_queries(["hooks", "hookz"], lambda: words)
    assert rows.toarray() == pytest.approx(np.array([[0, 1, 1, 0, 0, 1]] * 2) / 3)
    assert [term.recognized_terms for term in terms] == [3, 3]
    assert [term.corrected for term in terms] == [(), (("hookz", "hooks"),)]
    # Without the words of documents, all that is left is its spelling.
    assert features.transform_queries(["hooks"])[1][0].corrected == (("hooks", "looks"),)


def test_the_terms_that_stand_for_a_word_count_as_one_word_in_single_queries_and_batches() -> None:
    idf = np.array([1, 2, 3, 4], dtype=np.float32)
    vocabulary = ["fish", "line", "bait", "coat"]
    words = Words("fish hooks line", "hooks bait fish", "coat", "line coat", "coat bait")
    scaled = TextFeatures(vocabulary, idf=idf, l2_normalize=True)
    plain = TextFeatures(vocabulary, weighting="count")
    text = "hooks coat hooks fish"
    row = plain.transform_queries([text], lambda: words)[0].toarray()[0]
    # Twice a third of each of three terms, beside the words that the encoder knows.
    assert row == pytest.approx([1 + 2 / 3, 2 / 3, 2 / 3, 1])
    expected = np.log(2) * row * idf
    (columns, values), read = scaled.read_query(text, lambda: words)
    rows, together = scaled.transform_queries([text, "coat"], lambda: words)
    assert values == pytest.approx((expected / np.linalg.norm(expected))[columns], rel=1e-6)
    assert values.tolist() == rows.toarray()[0, columns].tolist()
    assert read == together[0]


def test_the_text_of_a_document_is_read_as_written() -> None:
    """Its code is then that of the document, which does not know the word either."""
    features = TextFeatures(["fish", "line"], weighting="count")
    words = Words("fish hooks line", "hooks fish", "fish", "line")
    text = "hooks fish"
    rows, _ = features.transform_queries([text], lambda: words)
    assert rows.toarray().tolist() == features.transform([text]).toarray().tolist()
    # A passage is not all of a long text.
    long = "hooks " + " ".join(f"w{number}" for number in range(8))
    quoting = lambda: Words(long, "hooks fish", "line")  # noqa: E731
    rows, _ = features.transform_queries([f"{long} fish of another sentence"], quoting)
    assert rows.toarray().tolist() == [[1, 0]]
    # A text of unknown words alone has no code of its own to find.
    assert features.transform_queries(["hooks"], lambda: Words("hooks", "hooks fish", "x"))[1] == [
        (1, (), 1)
    ]


def test_a_word_of_no_passage_with_a_known_term_is_read_as_nothing() -> None:
    features = TextFeatures(["fish", "looks"], weighting="count")
    rows, terms = features.transform_queries(["hooks fish"], lambda: Words("hooks", "fish"))
    assert rows.toarray().tolist() == [[1, 0]]
    assert terms[0].recognized_terms == 1
