from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.index.languages import analyzer_of
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.word_forms import other_forms

TEXTS = [
    "Cordless drill, model DDF484Z, brushless.",
    "Cordless drill, model DDF453Z.",
    "Hex bolt HB-0840-ZN, zinc plated.",
    "Error 0x80070005: access is denied.",
    "Defined by RFC 2616 and replaced later.",
    "Why does my C++ program crash?",
    "Reading a file in C# line by line.",
    "Publishing a .NET application.",
    "Running a Node.js server.",
    "Comparing means with the t-test.",
    "A test of independence.",
    "Clusters of k-means by the elbow.",
    "Lost phone: resetting 2FA codes.",
    "torch.nn.CrossEntropyLoss expects indices.",
    "The guest Wi-Fi drops.",
    "A power bank with 10,000 mAh.",
    "AT&T raised its prices.",
    "Unsubscribing takes one click.",
    "The thermostat does not heat.",
    "What a negative R-squared says.",
    "Kubernetes restarts pods.",
]


@pytest.fixture(scope="module")
def index() -> LexicalIndex:
    return LexicalIndex.build(0, analyzer_of("english"), enumerate(TEXTS), forms=True)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("DDF484", "DDF484Z"),
        ("ddf 484 z", "DDF484Z"),
        ("hb0840zn", "HB-0840-ZN"),
        ("HB 0840", "HB-0840-ZN"),
        ("80070005", "0x80070005"),
        ("rfc2616", "RFC 2616"),
        ("c++", "C++"),
        ("c#", "C#"),
        (".net", ".NET"),
        ("nodejs", "Node.js"),
        ("t-test", "t-test"),
        ("t test", "t-test"),
        ("k means", "k-means"),
        ("kmeans", "k-means"),
        ("2fa", "2FA"),
        ("cross_entropy", "CrossEntropyLoss"),
        ("wifi", "Wi-Fi"),
        ("10000mah", "10,000 mAh"),
        ("AT&T", "AT&T"),
        ("unsubscribe", "Unsubscribing"),
        ("thermostatt", "thermostat"),
        ("R squared", "R-squared"),
        ("kubern*", "Kubernetes"),
    ],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_name_is_found_however_it_is_written(
    index: LexicalIndex, query: str, text: str, hybrid: bool
) -> None:
    best = index.matches(index.weigh(query, hybrid=hybrid)).best(1).rows
    assert [text in TEXTS[row] for row in best.tolist()] == [True]


def test_what_stands_for_unknown_words_is_said(index: LexicalIndex) -> None:
    read = index.read("thermostatt drill ddf484")
    assert read.corrected == (("thermostatt", "thermostat"),)
    assert read.expanded == {"ddf484": ("ddf484z",)}
    assert read.encoded == "thermostat drill ddf484z"
    assert index.read("kubern*").expanded == {"kubern*": ("kubernetes",)}
    plain = index.read("cordless drill")
    assert (plain.corrected, plain.expanded) == ((), {})


NUMBERS = [
    "notes of version 2.19",
    "notes of version 3.1 and its changes",
    "part SA-1235-X of steel",
    "part SA-1234-Y of steel",
    "Error 0x1f5e in the log",
    "order 12345 was paid",
    "python3.11 on Debian",
    "a 3.5-inch disk",
    "numbers of base ten",
]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("6.19", []),
        ("2.19", [0]),
        ("v2.19", [0]),
        ("0x1F4A", []),
        ("0x1F5E", [4]),
        ("1234", [3]),
        ("12345", [5]),
        ("python 3.11", [6]),
        ("python 3.12", [6]),
        ("3.5 inch", [7]),
        ("base64", []),
    ],
)
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_number_or_a_code_never_stands_for_another(
    query: str, rows: list[int], hybrid: bool
) -> None:
    index = LexicalIndex.build(0, analyzer_of("english"), enumerate(NUMBERS), forms=True)
    assert index.matches(index.weigh(query, hybrid=hybrid)).best(9).rows.tolist() == rows
    read = index.read(query)
    assert (read.corrected, read.expanded) == ((), {})


def test_what_only_shares_digits_with_a_version_does_not_match_it() -> None:
    index = LexicalIndex.build(0, analyzer_of("english"), enumerate(NUMBERS), forms=True)
    ranked = index.matches(index.weigh("version 6.19")).best(9)
    assert ranked.rows.tolist() == [0, 1]
    matched = [term.term for word in index.weigh("version 6.19").words for term in word.terms]
    assert matched == ["version", "6.19"]
    # Nor do the digits count in the code.
    assert index.read("version 6.19").encoded == "version"
    assert index.read("version 2.19").encoded == "version 19"
    assert "SA-1234-Y" in NUMBERS[int(index.rank("SA-1234-X", 1).rows[0])]


def corrected(index: LexicalIndex, text: str) -> dict[str, str]:
    return dict(index.read(text).corrected)


def test_a_word_that_a_document_has_is_never_corrected() -> None:
    texts = ["injection of fuel", *["infection of the ear"] * 50, "hooks on a wall", "looks"]
    index = LexicalIndex.build(0, analyzer_of("english"), enumerate(texts), forms=True)
    assert corrected(index, "injection") == {}
    assert corrected(index, "injections") == {}  # its stem is known
    assert corrected(index, "infecton") == {"infecton": "infection"}


def test_long_words_are_corrected_by_two_edits() -> None:
    texts = ["accommodation for two", "a plan", "the committee of nine"]
    index = LexicalIndex.build(0, analyzer_of("english"), enumerate(texts), forms=True)
    assert corrected(index, "acomodation") == {"acomodation": "accommodation"}
    assert corrected(index, "commitee") == {"commitee": "committee"}
    assert corrected(index, "plns") == {}


def test_other_words_of_the_query_decide_between_corrections() -> None:
    texts = ["a form to sign"] * 20 + ["a ferm of lease"] * 20 + ["a farm with cows"] * 5
    index = LexicalIndex.build(0, analyzer_of("none"), enumerate(texts), forms=True)
    assert corrected(index, "fxrm cows") == {"fxrm": "farm"}
    assert corrected(index, "fxrm sign") == {"fxrm": "form"}


def test_a_later_page_has_the_same_terms_whatever_was_written(index: LexicalIndex) -> None:
    weighed = index.weigh("ddf484 thermostatt", hybrid=True)
    later = index.with_changes(1, [(len(TEXTS), "ddf484 and ddf484y")], index.rows()[:0])
    assert later.weigh_again(weighed.statistics) == weighed
    assert later.weigh("ddf484 thermostatt", hybrid=True) != weighed


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("(Fortran-style).", ["fortranstyle"]),
        ("(see v2.17.1).", ["2.17.1"]),
        ("(C++).", ["c++"]),
        ("np.sum(a_b[0]),", ["npsum", "ab", "a", "b"]),
        ("equal_nan=True.", ["equalnan", "equal", "nan"]),
        ("f(x)", []),
        ("$1,000.", ["1000"]),
    ],
)
def test_brackets_and_the_signs_of_expressions_end_a_name(text: str, forms: list[str]) -> None:
    assert other_forms(text) == forms


@given(st.text(alphabet="ab1.,;()[]{}=|*-_ ", max_size=60))
def test_no_form_has_a_bracket_or_the_sign_of_an_expression(text: str) -> None:
    assert not set("()[]{}=|*;") & set("".join(other_forms(text)))


@given(st.text(max_size=60))
def test_other_forms_are_words_without_spaces(text: str) -> None:
    assert all(form and not form.isspace() and len(form.split()) == 1 for form in other_forms(text))


def test_plain_words_have_no_other_forms() -> None:
    assert other_forms("Plain words of one sentence, don't they have forms? It's fine.") == []
