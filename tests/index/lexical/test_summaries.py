from __future__ import annotations

import pytest

from hummingbit.encoder.analyzers import WORDS
from hummingbit.encoder.text_features import summary_of
from hummingbit.index.lexical import SUMMARY_TERMS, LexicalIndex, has_several_sentences


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
