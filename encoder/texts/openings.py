"""The title and the summary of a text: what it is about, in its own first words."""

from __future__ import annotations

import re

# Only so many characters of a title and of a sentence are read.
SEARCHED_LENGTH = 1000
MAX_SUMMARY_WEIGHT = 100.0
"""The highest weight of the summary in the features of a document."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")


def title_of(text: str) -> str | None:
    """Return the first line of a text, or None if it has only one; blank lines do not count."""
    first, _, rest = text.lstrip().partition("\n")
    return first if rest and not rest.isspace() else None


def summary_of(text: str) -> str:
    """Return the title of a text, if it has one, and the first sentence that follows.

    A sentence also ends where its line ends. So a text of one sentence is its own summary.
    """
    title = title_of(text)
    after_title = text.lstrip()[len(title or "") :].lstrip()
    line = after_title[:SEARCHED_LENGTH].partition("\n")[0]
    end = _SENTENCE_END.search(line)
    stop = end.end() if end else len(line)
    if title is not None:
        return f"{title[:SEARCHED_LENGTH]}\n{line[:stop]}"
    return line[:stop]


def proper_summary(text: str) -> str:
    """Return the summary of a text, or nothing if the summary is the whole text."""
    summary = summary_of(text)
    return "" if summary == text.strip() else summary
