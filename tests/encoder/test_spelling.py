from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.spelling import Speller, english_words, is_correctable, is_one_edit

short_words = st.text("xqzé", min_size=0, max_size=6)


def edits(one: str, other: str) -> int:
    """Count edits by the textbook's recursion: optimal string alignment."""
    before: list[list[int]] = []
    for i in range(len(one) + 1):
        row: list[int] = []
        for j in range(len(other) + 1):
            ways = [i + j] if not i or not j else []
            if i and j:
                ways += [before[i - 1][j] + 1, row[j - 1] + 1]
                ways += [before[i - 1][j - 1] + (one[i - 1] != other[j - 1])]
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                ways += [before[i - 2][j - 2] + 1]
            row.append(min(ways))
        before.append(row)
    return before[-1][-1]


@settings(deadline=None)
@given(short_words, short_words)
def test_one_edit_is_one_edit(one: str, other: str) -> None:
    assert is_one_edit(one, other) == (edits(one, other) == 1)


@settings(deadline=None)
@given(st.lists(st.text("xqzé", min_size=3, max_size=6), unique=True), short_words)
def test_the_first_known_word_one_edit_away_is_found(known: list[str], word: str) -> None:
    expected = next((item for item in known if edits(word, item) == 1), None)
    assert Speller(known).correct(word) == (expected if len(word) >= 4 else None)


def test_of_words_as_near_the_one_of_the_least_order_wins() -> None:
    assert Speller(["form", "from"]).correct("frrm") == "form"
    assert Speller(["form", "from"], [2.0, 1.0]).correct("fomr") == "form"
    assert Speller(["cart", "care", "card"], [3.0, 1.0, 1.0]).correct("carx") == "care"


@pytest.mark.parametrize("word", ["cta", "2019", "x_ray", "b2b2", "北京大学", "~car", "dog", ""])
def test_short_words_numbers_and_other_scripts_are_left_alone(word: str) -> None:
    assert (
        Speller(["cat", "2018", "xray", "b2b3", "北京大字", "~cart", "dogs"]).correct(word) is None
    )


def test_overlong_words_are_left_alone() -> None:
    known = "a" * 64
    assert Speller([known]).correct("a" * 63) == known
    assert Speller([known]).correct("a" * 65) is None
    # Its hashes, were they made, would not fit into memory.
    assert Speller([known, "a" * 10**6]).correct("a" * (10**6 - 1)) is None


def test_words_of_english_stand_for_themselves() -> None:
    speller = Speller(["emil", "milles", "dilate"])
    for word in ("email", "miles", "delete"):
        assert not is_correctable(word)
        assert speller.correct(word) is None
    assert speller.correct("emial") == "emil"
    for misspelt in ("recieve", "occured", "seperate", "begining", "adress", "wether"):
        assert is_correctable(misspelt)
    assert len(english_words()) == 30_000
    assert all(word.isalpha() and word == word.lower() for word in english_words())
