from __future__ import annotations

import pytest

from hummingbit.encoder.text_features import sentences_after_summary, summary_of, title_of


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
    ("text", "sentences"),
    [
        ("", []),
        ("One sentence.", []),
        ("First. Second! Third", [" Second", " Third"]),
        ("title\nFirst. Second.\n\nThird", [" Second", "Third"]),
        ("这是第一句。这是第二句。", ["这是第二句"]),
        ("Version 1.5 is out. 2.0 is not", [" 2.0 is not"]),
    ],
)
def test_the_sentences_after_the_summary_also_end_with_their_lines(
    text: str, sentences: list[str]
) -> None:
    assert sentences_after_summary(text) == sentences
