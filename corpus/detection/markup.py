"""Texts in HTML, and what a browser would show of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser

HIDDEN = frozenset({"script", "style", "template", "title"})
"""Elements whose content a browser does not show in the page."""
CELLS = frozenset({"td", "th"})
BLOCKS = frozenset(
    "address article aside blockquote br caption dd div dl dt figcaption figure footer form"
    " h1 h2 h3 h4 h5 h6 header hr li main nav ol option p pre section table tbody tfoot thead tr"
    " ul".split()
)
"""Elements that begin and end a line."""
INLINE = frozenset("a abbr b cite code em font i img small span strong sub sup u".split())
_KNOWN = "|".join(sorted(BLOCKS | CELLS | INLINE | HIDDEN))
_TAG = re.compile(rf"</?(?:{_KNOWN})(?:\s[^<>]*)?/?>", re.IGNORECASE)


def is_html(texts: Sequence[str]) -> bool:
    """Tell whether at least half of `texts`, and one of them, have a tag of HTML."""
    tagged = sum(_TAG.search(text) is not None for text in texts)
    return 0 < len(texts) <= 2 * tagged


def plain_text(markup: str) -> str:
    """Return the text that a browser shows of HTML.

    Blocks such as paragraphs are on lines of their own, character references are decoded, and white
    space is collapsed.
    """
    if "<" not in markup and "&" not in markup:
        return markup
    parser = _Text()
    parser.feed(markup)
    parser.close()
    lines = (" ".join(line.split()) for line in parser.text().split(_Text.LINE_END))
    return "\n".join(filter(None, lines))


class _Text(HTMLParser):
    """Collects the text between tags. Its line ends are not those of the source."""

    LINE_END = "\0"

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden: str | None = None

    def text(self) -> str:
        """Return what has been collected."""
        return "".join(self._parts)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - HTMLParser's
        self._separate(tag)
        if self._hidden is None and tag in HIDDEN:
            self._hidden = tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - HTMLParser's
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = None
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        if self._hidden is None:
            self._parts.append(data.replace(self.LINE_END, " "))

    def _separate(self, tag: str) -> None:
        if tag in BLOCKS:
            self._parts.append(self.LINE_END)
        elif tag in CELLS:
            self._parts.append(" ")
