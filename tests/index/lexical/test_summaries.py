from __future__ import annotations

import pytest

from encoder.analyzers import WORDS
from index.lexical.bm25_formula import SUMMARY_TERMS
from index.lexical.index import LexicalIndex
from index.lexical.summaries import has_several_sentences, summary_of, title_of


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", None),
        ("one line", None),
        ("one line\n", None),
        ("\n \n one line \n\t\n", None),
        ("title\ntext", "title"),
        ("\n\n title \n\nmore\ntext", "title "),
        ("title\r\ntext", "title\r"),
    ],
)
def test_the_title_is_the_first_of_several_lines(text: str, title: str | None) -> None:
    assert title_of(text) == title


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("one sentence", "one sentence"),
        ("One sentence.", "One sentence."),
        ("\n One sentence. \n", "One sentence."),
        ("One sentence. And another.", "One sentence."),
        ("Version 1.5 is out! It has more", "Version 1.5 is out!"),
        ("这是第一句。这是第二句。", "这是第一句。"),
        ("title\ntext", "title\ntext"),
        ("\n title\n\n First. Second.\nThird.", "title\nFirst."),
        ("A title. Of two\nA line\nanother line.", "A title. Of two\nA line"),
        ("x" * 2000 + ". More", "x" * 1000),
        ("x" * 2000 + "\nMore. And more", "x" * 1000 + "\nMore."),
    ],
)
def test_the_summary_is_the_title_and_the_sentence_after_it(text: str, summary: str) -> None:
    assert summary_of(text) == summary


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("", False),
        (" one sentence \t\n", False),
        ("One sentence. \n", False),
        ("One sentence. And another", True),
        ("x " * 2000, False),
        ("x" * 2000 + ". More", False),
    ],
)
def test_a_text_has_several_sentences_if_it_goes_on_after_the_summary(
    text: str, several: bool
) -> None:
    assert has_several_sentences(text, summary_of(text)) is several


def test_a_summary_has_its_first_terms_once_each() -> None:
    words = [f"w{number:03}" for number in range(SUMMARY_TERMS + 9)]
    text = "again again " + " ".join(words) + ". The end."
    index = LexicalIndex.build(0, WORDS, [(0, text)])
    found = {
        word for word in ["again", *words] if index.summaries.frequency(index.vocabulary[word])
    }
    assert found == {"again", *words[: SUMMARY_TERMS - 2]}
    # The size of the summary: the squares of the lengths of its distinct terms.
    assert average_size_of(index) == 5**2 + (SUMMARY_TERMS - 2) * 4**2


def test_a_text_without_terms_does_not_change_the_mean_size_of_summaries() -> None:
    documents = [(0, "two words"), (1, "..."), (2, ""), (3, "!. Wow"), (4, "title\nyes")]
    index = LexicalIndex.build(0, WORDS, documents)
    assert average_size_of(index) == ((3**2 + 5**2) + (5**2 + 3**2)) / 2


def average_size_of(index: LexicalIndex) -> float | None:
    """Return the mean size of the summaries of texts, with which a hybrid search ranks."""
    return index.weigh("any", hybrid=True).average_summary_size
