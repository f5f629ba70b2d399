"""Unicode's normal form NFKC of texts of any length."""

from __future__ import annotations

import unicodedata

# Normalising takes the square of a run of marks, so a text is normalised some characters at a time.
# It is not cut between a character and the marks on it, unless these are more than anyone writes.
NORMALIZED_AT_ONCE = 1024
MOST_MARKS = 64


def nfkc(text: str) -> str:
    """Return the NFKC form of `text`."""
    if len(text) <= NORMALIZED_AT_ONCE:
        return unicodedata.normalize("NFKC", text)
    parts, start = [], 0
    while start < len(text):
        end = start + NORMALIZED_AT_ONCE
        last = end + MOST_MARKS
        while end < min(last, len(text)) and _joins(text[end]):
            end += 1
        parts.append(unicodedata.normalize("NFKC", text[start:end]))
        start = end
    return "".join(parts)


def _joins(character: str) -> bool:
    """Return whether a character may become one with those before it, as marks and vowels do."""
    first = unicodedata.normalize("NFKD", character)[0]
    is_mark = unicodedata.category(first)[0] == "M" or unicodedata.combining(first) > 0
    return is_mark or "\u1160" <= first <= "\u11ff"
