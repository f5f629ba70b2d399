from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.layout import BLOCKS, CELLS, INLINE, is_html, plain_text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("no tags at all", "no tags at all"),
        ("<p>One\n  line.</p><p>Another <b>bold</b> one</p>", "One line.\nAnother bold one"),
        ("fish &amp; chips &lt;5&nbsp;€ &#8364;", "fish & chips <5 € €"),
        ("a<br>b<br/>c<BR />d", "a\nb\nc\nd"),
        ("<ul><li>one<li>two</ul>three", "one\ntwo\nthree"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("<style>p { color: red }</style>seen<script>if (a < b) hide()</script>", "seen"),
        ("super<b>cali</b>fragilistic", "supercalifragilistic"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<!-- a comment -->shown<img src='x' alt='y'>", "shown"),
        ("<p></p>", ""),
        ("<img alt='a > b'>seen<a title=\"x > y\">too</a>", "seentoo"),
        ("List<String> and <my-element>x</my-element>", "List and x"),
        ("<title>hidden</TITLE>shown<script>unclosed", "shown"),
        ("<!DOCTYPE html><?xml?>shown<!-- unclosed", "shown"),
        ("&lt;p&gt; &amp;lt;", "<p> &lt;"),
        ("<a <b>bold</b> a<", "<a bold a<"),
    ],
)
def test_the_text_is_what_a_browser_shows(markup: str, text: str) -> None:
    assert plain_text(markup) == text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_that_was_escaped_comes_back(text: str) -> None:
    assert plain_text(html.escape(text)).split() == text.split()


WORDS = st.text("abcäß漢", min_size=1, max_size=5)
TAGS = st.sampled_from(sorted(BLOCKS | CELLS | INLINE))


@given(st.lists(st.tuples(TAGS, WORDS), min_size=1, max_size=8))
def test_every_word_is_kept_and_no_tag(parts: list[tuple[str, str]]) -> None:
    markup = "".join(f'<{tag} class="x">{word}</{tag}>' for tag, word in parts)
    text = plain_text(markup)
    assert re.sub(r"\s", "", text) == "".join(word for _, word in parts)
    has_blocks = any(tag in BLOCKS for tag, _ in parts)
    if not has_blocks:
        assert "\n" not in text


@pytest.mark.parametrize("part", ["<", "<a ", "<a '", '<a "', "<!--", "<!", "&", "<a/", "<script>"])
def test_unclosed_tags_take_no_longer_than_others(part: str) -> None:
    # A million characters; a parser that starts anew at each tag would take hours.
    assert len(plain_text(part * (1_000_000 // len(part)))) <= 1_000_000


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["<p>one</p>", "two"], True),
        (["<P>one", "two", "three"], False),
        (["a < b > c", "List<String> x"], False),
        (["<br/>", '<a href="x">y</a>', "z"], True),
        ([], False),
    ],
)
def test_half_of_the_texts_must_have_tags(texts: list[str], expected: bool) -> None:
    assert is_html(texts) is expected
