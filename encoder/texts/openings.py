"""The title, the summary and the sentences of a text."""

from __future__ import annotations

import re

# Only so many characters of a title and of a sentence are read.
SEARCHED_LENGTH = 1000
MAX_SUMMARY_WEIGHT = 100.0
"""The highest weight of the summary in the features of a document."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_CLAUSE_END = re.compile(r"[.!?;:](?=\s)|[\n。！？；：]")
# Longer sentences are cut into pieces of this many words.
_MAX_SENTENCE_WORDS = 30
_SENTENCE_OR_LINE_END = re.compile(rf"{_SENTENCE_END.pattern}|\n")


def title_of(text: str) -> str | None:
    """Return the first line of a text, or None if it has only one; blank lines do not count."""
    first, _, rest = text.lstrip().partition("\n")
    return first if rest and not rest.isspace() else None


def summary_of(text: str) -> str:
    """Return the title of a text, if it has one, and the first sentence that follows.

    A sentence also ends where its line ends. So a text of one sentence is its own summary.
    """
    title, sentence, _ = _parts(text)
    return sentence if title is None else f"{title[:SEARCHED_LENGTH]}\n{sentence}"


def proper_summary(text: str) -> str:
    """Return the summary of a text, or nothing if the summary is the whole text."""
    summary = summary_of(text)
    return "" if summary == text.strip() else summary


def sentences_after_summary(text: str) -> list[str]:
    """Return the sentences and lines of a text that are not in its summary."""
    _, _, rest = _parts(text)
    return [one for one in _SENTENCE_OR_LINE_END.split(rest) if one.strip()]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, at most thirty words each, in order."""
    sentences: list[str] = []
    for sentence in _CLAUSE_END.split(text):
        words = sentence.split()
        starts = range(0, len(words), _MAX_SENTENCE_WORDS)
        sentences.extend(" ".join(words[start : start + _MAX_SENTENCE_WORDS]) for start in starts)
    return sentences


def _parts(text: str) -> tuple[str | None, str, str]:
    """Return the title, the first sentence after it, and the rest."""
    title = title_of(text)
    after_title = text.lstrip()[len(title or "") :].lstrip()
    line = after_title[:SEARCHED_LENGTH].partition("\n")[0]
    end = _SENTENCE_END.search(line)
    stop = end.end() if end else len(line)
    return title, line[:stop], after_title[stop:]
