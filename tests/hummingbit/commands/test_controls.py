"""Ids and texts that a terminal would obey."""

from __future__ import annotations

import pytest

from hummingbit.commands.printing import without_controls
from hummingbit.commands.search import _line


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("é 中文 a\u3000b 👍🏽", "é 中文 a\u3000b 👍🏽"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\r\nb\tc\0", r"a\r\nb\tc\x00"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
    ],
)
def test_control_characters_are_printed_as_escapes(text: str, printed: str) -> None:
    assert without_controls(text) == printed
    assert without_controls(printed) == printed


def test_a_hit_is_one_line() -> None:
    hit = {"id": "a\nb", "distance": 3, "score": 0.5, "payload": {"x": "\x9b2J"}}
    assert _line(hit, "hamming", "") == r'   3  a\nb  {"x": "\x9b2J"}'
