"""Ids and texts that a terminal would obey."""

from __future__ import annotations

import pytest

from hummingbit.commands.hits import print_hits
from hummingbit.commands.printing import without_controls


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


def test_nothing_in_a_hit_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    hit = {
        "id": "a\nb",
        "distance": 3,
        "confidence": 0.5,
        "payload": {"x\x1b": "\x9b2J", "title": "t\x07"},
        "text": "one\x1b[2Jtwo",
        "highlight": {"start": 0, "passage": "one\x1b[2Jtwo", "marks": [[0, 3]]},
    }
    print_hits([hit])
    assert capsys.readouterr().out == (
        r" 1  t\x07  50%" "\n" r"    a\nb · x\x1b \x9b2J" "\n" r"    one\x1b[2Jtwo" "\n"
    )
    print_hits([hit], fields=[], with_text=False)
    assert capsys.readouterr().out == " 1  t\\x07  50%\n    a\\nb\n"
