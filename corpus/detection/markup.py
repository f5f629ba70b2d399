"""Texts in HTML, and what a browser would show of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

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
_KNOWN_TAG = re.compile(rf"</?(?:{_KNOWN})(?:\s[^<>]*)?/?>", re.IGNORECASE)
# A tag, a comment or a declaration. No part of the pattern can pass over a second "<", and none is
# matched in two ways, so that the time is proportional to the length of any text.
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][a-zA-Z0-9-]*+)(?:[\s/](?:"[^"<]*+"|'[^'<]*+'|[^'"<>])*+)?+>"""
    r"|<!--|<[!?][^<>]*+>"
)
_LINE_END = "\0"
"""Not a line end of the source, which is only a space."""


def is_html(texts: Sequence[str]) -> bool:
    """Tell whether at least half of `texts`, and one of them, have a tag of HTML."""
    tagged = sum(_KNOWN_TAG.search(text) is not None for text in texts)
    return 0 < len(texts) <= 2 * tagged


def plain_text(markup: str) -> str:
    """Return the text that a browser shows of HTML.

    Blocks such as paragraphs are on lines of their own, character references are decoded, and white
    space is collapsed.
    """
    if "<" not in markup and "&" not in markup:
        return markup
    text = "".join(_shown(markup.replace(_LINE_END, " ")))
    lines = (" ".join(line.split()) for line in text.split(_LINE_END))
    return "\n".join(filter(None, lines))


def _shown(markup: str) -> Iterator[str]:
    """Yield the text between tags and, for the tags that separate it, line ends and spaces."""
    at = 0
    while (tag := _TAG.search(markup, at)) is not None:
        yield unescape(markup[at : tag.start()])
        at = tag.end()
        name = (tag["name"] or "").lower()
        if name in BLOCKS:
            yield _LINE_END
        elif name in CELLS:
            yield " "
        elif name in HIDDEN and not tag["end"]:
            end = re.compile(rf"</{name}\b", re.IGNORECASE).search(markup, at)
            at = len(markup) if end is None else end.start()
        elif tag[0] == "<!--":
            end_of_comment = markup.find("-->", at)
            at = len(markup) if end_of_comment < 0 else end_of_comment + 3
    yield unescape(markup[at:])
