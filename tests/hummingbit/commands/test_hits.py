"""What a hit looks like to a person."""

from __future__ import annotations

from typing import Any

import pytest

from hummingbit.commands.hits import print_hits

LINE = (
    "A filter of spam, written in Perl, that reads headers and bodies of mails, asks lists of hosts"
)
SPAM = f"spamassassin\n{LINE} and learns from what its users mark."


def hit(**changes: Any) -> dict[str, Any]:
    made = {"id": "P-1000", "score": 6.51, "distance": 13, "confidence": 0.43, "text": SPAM}
    return {**made, "payload": {"price": 70.2, "stock": "yes"}, **changes}


def printed(capsys: pytest.CaptureFixture[str], *hits: dict[str, Any]) -> list[str]:
    print_hits(hits)
    return capsys.readouterr().out.splitlines()


def test_a_hit_has_its_title_its_fields_and_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert printed(capsys, hit()) == [
        " 1  spamassassin  43%",
        "    P-1000 · price 70.2 · stock yes",
        f"    {LINE} …",
    ]


@pytest.mark.parametrize("first", ["# spamassassin", "% spamassassin %", "== spamassassin =="])
def test_signs_of_markup_are_no_part_of_a_title(
    capsys: pytest.CaptureFixture[str], first: str
) -> None:
    text = SPAM.replace("spamassassin", first)
    assert printed(capsys, hit(text=text))[0] == " 1  spamassassin  43%"


def test_a_first_line_without_words_is_no_title(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, hit(text=SPAM.replace("spamassassin", "<!--")))
    assert lines[0] == " 1  P-1000  43%"
    assert lines[-1].startswith("    A filter of spam")


def test_the_id_stands_for_a_title_that_it_contains(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, hit(id="mail.spamassassin"))
    assert lines[0] == " 1  mail.spamassassin  43%"
    assert lines[-1].startswith("    A filter of spam")


def test_fields_that_all_hits_share_tell_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    other = hit(id="P-2", payload={"price": 9, "stock": "yes"})
    lines = printed(capsys, hit(), other)
    assert "    P-1000 · price 70.2" in lines
    assert "    P-2 · price 9" in lines


def test_a_short_text_is_the_hit(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, hit(text="train ticket", payload={"intent": "transport"}))
    assert lines == [" 1  train ticket  43%", "    P-1000 · intent transport"]
