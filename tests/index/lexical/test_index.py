from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.index import lexical
from hummingbit.index import lexical as lexical_index
from hummingbit.index.engines import kernel
from hummingbit.index.lexical import (
    ANALYZERS,
    UNIT,
    LexicalIndex,
)
from hummingbit.index.query_syntax import QueryText, words_in_order
from hummingbit.index.questions import Alternative, Question, Word
from hummingbit.index.word_forms import other_forms
from tests.support.oracles.brute_force_bm25 import BruteForceBm25

WORDS = [f"w{number}" for number in range(30)]
WORDS_ONLY = ANALYZERS["words"]


def some_documents(rng: np.random.Generator, n_documents: int) -> list[tuple[int, str]]:
    """Make texts in which a few words are frequent.

    Some are empty, some have several lines or sentences, and some rows have no text.
    """
    lengths = rng.integers(0, 12, n_documents)
    drawn = (rng.geometric(0.15, length).clip(max=len(WORDS)) - 1 for length in lengths)
    texts = (
        "".join(WORDS[word] + rng.choice([" ", " ", ". ", "\n", "\n\n"]) for word in words)
        for words in drawn
    )
    rows = np.sort(rng.choice(2 * n_documents + 1, n_documents, replace=False)).tolist()
    return list(zip(rows, texts, strict=True))


def indexed(texts: list[str]) -> LexicalIndex:
    return LexicalIndex.build(0, WORDS_ONLY, enumerate(texts))


def check(
    index: LexicalIndex,
    oracle: BruteForceBm25,
    k: int,
    allowed: np.ndarray | None,
    *,
    opening: int = 12,
) -> None:
    for text in ("w0 w1 w2", "w0 w0 w7 w20", "w29 unknown", "unknown", ""):
        found = index.rank(text, k, allowed)
        expected = oracle.rank(text, k, allowed)
        assert list(zip(found.scores.tolist(), found.rows.tolist(), strict=True)) == expected
        in_hybrid = index.matches(index.weigh(text, hybrid=True))
        rows = np.array(oracle.rows, dtype=np.int64)
        by_words = oracle.hybrid_scores(text, opening)
        assert in_hybrid.scores_of(rows).tolist() == by_words


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    start=st.integers(0, 40),
    writes=st.lists(st.tuples(st.integers(0, 12), st.floats(0, 0.6)), max_size=6),
    min_fold=st.sampled_from([0, 10, 4096]),
    k=st.integers(1, 30),
)
def test_every_index_ranks_as_the_oracle_does(
    *, seed: int, start: int, writes: list[tuple[int, float]], min_fold: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    documents = some_documents(rng, start + sum(added for added, _ in writes))
    held, later = documents[:start], documents[start:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "MIN_FOLD", min_fold)
        patch.setattr(lexical_index, "DOCUMENTS_AT_ONCE", 7)
        patch.setattr(lexical, "OPENING", 3)
        patch.setattr(lexical, "GROUP", 3)
        index = LexicalIndex.build(0, WORDS_ONLY, held)
        before = [(index, held)]
        for number, (n_added, share) in enumerate(writes, start=1):
            removed = [row for row, _ in held if rng.random() < share]
            added, later = later[:n_added], later[n_added:]
            index = index.with_changes(number, added, np.array(removed, dtype=np.int64))
            held = [item for item in held if item[0] not in removed] + added
            before.append((index, held))
        for number, (item, its_documents) in enumerate(before):
            oracle = BruteForceBm25(its_documents, WORDS_ONLY)
            rows = np.array(oracle.rows, dtype=np.int64)
            assert item.number == number
            for index in (item, item.compacted()):
                assert index.rows().tolist() == oracle.rows
                for allowed in (None, rows[rng.random(len(rows)) < 0.4]):
                    check(index, oracle, k, allowed, opening=3)


def test_scores_are_the_formula_s() -> None:
    # N = 3, avg = 3; "cat" has n = 2: idf = ln(1 + 1.5 / 2.5).
    texts = ["cat sat mat", "cat cat dog sat", "dog mat"]
    found = indexed(texts).rank("cat", 10)
    idf = np.log(1.6)
    second = idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3))
    assert found.rows.tolist() == [1, 0]
    assert found.scores / UNIT == pytest.approx([second, idf / 2.2], abs=2 / UNIT)


def test_terms_in_the_opening_count_twice_where_that_is_asked_for() -> None:
    # Text 0 begins with "cat", text 1 ends with it after twelve others; 13 + 12 terms each.
    others = " ".join(f"word{number}" for number in range(12))
    index = indexed([f"cat {others}", f"{others} cat"])
    plain, twice = (
        index.matches(index.weigh("cat", hybrid=hybrid)).scores_of(np.array([0, 1]))
        for hybrid in (False, True)
    )
    idf = np.log(1.2)
    assert plain / UNIT == pytest.approx([idf / 2.2] * 2, abs=1 / UNIT)
    idf = np.log(1001 / 2.5)
    assert twice / UNIT == pytest.approx([idf * 2 / 3.2, idf / 2.2], abs=1 / UNIT)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_correction_counts_only_if_no_document_has_the_word_as_written(hybrid: bool) -> None:
    index, rows = indexed(["lights on", "human rights", "lamp\nand rights"]), np.arange(3)

    def scores(query: str) -> list[int]:
        weighed = index.weigh(query, hybrid=hybrid)
        assert index.weigh_again(orjson.loads(orjson.dumps(weighed.statistics))) == weighed
        found: list[int] = index.matches(weighed).scores_of(rows).tolist()
        return found

    assert index.read("lights").corrected == ()
    assert index.read("rigths").corrected == (("rigths", "rights"),)
    assert scores("rigths") == scores("rights")
    assert scores("lamp rigths") == scores("lamp rights")


@pytest.mark.parametrize(
    "statistics",
    [{}, {"average_length": 1.0, "opening_twice": False}, {"words": 3}, {"words": []}]
    + [
        {"words": [word], "average_length": 1.0, "opening_twice": False}
        for word in ([], [1, 0.5, False, []], 7)
    ],
)
def test_statistics_of_no_query_are_refused(statistics: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        indexed(["some words"]).weigh_again(statistics)


WORD = st.lists(
    st.tuples(st.sampled_from(WORDS[:12]), st.sampled_from([0.2, 0.5, 1.0]), st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=lambda alternative: alternative[0],
)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    words=st.lists(st.tuples(WORD, st.integers(1, 3)), min_size=1, max_size=30),
    k=st.integers(1, 20),
    share_removed=st.sampled_from([0.0, 0.4]),
)
def test_of_the_terms_of_a_word_the_one_with_the_largest_part_counts(
    seed: int,
    words: list[tuple[list[tuple[str, float, bool]], int]],
    k: int,
    share_removed: float,
) -> None:
    """Compare with the formula, term by term, by the kernel and by numpy."""
    rng = np.random.default_rng(seed)
    documents = some_documents(rng, 60)
    index = LexicalIndex.build(0, WORDS_ONLY, documents[:40])
    removed = [row for row, _ in documents[:40] if rng.random() < share_removed]
    index = index.with_changes(1, documents[40:], np.array(removed, dtype=np.int64))
    held = [document for document in documents if document[0] not in removed]
    oracle = BruteForceBm25(held, WORDS_ONLY)
    question = Question(
        QueryText(""),
        [Word(tuple(Alternative(*one) for one in terms), repeats) for terms, repeats in words],
    )
    expected = np.zeros(len(held), dtype=np.int64)
    for terms, repeats in words:
        own = oracle.idf(terms[0][0])
        parts = [
            oracle.parts(term, factor * min(oracle.idf(term), own if capped and own else np.inf))
            for term, factor, capped in terms
        ]
        expected += np.max(parts, axis=0) * repeats
    rows = np.array([row for row, _ in held], dtype=np.int64)
    weighed = index.weigh(question)
    order = sorted(range(len(rows)), key=lambda at: (-expected[at], rows[at]))
    best = [(int(rows[at]), int(expected[at])) for at in order if expected[at] > 0][:k]
    for native in (kernel.native, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "native", native)
            assert index.matches(weighed).scores_of(rows).tolist() == expected.tolist()
            found = index.best(weighed, k)
            assert list(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == best


def test_equal_scores_come_by_row_where_there_are_many() -> None:
    index = indexed(["same words"] * 100)
    assert index.rank("words", 7).rows.tolist() == list(range(7))


def test_a_query_of_more_terms_than_four_bytes_count_scores_alike() -> None:
    texts = [
        " ".join(f"t{number}" for number in range(position, position + 300))
        for position in range(3)
    ]
    index = indexed(texts)
    query = " ".join(f"t{number} " * 200 for number in range(300))
    oracle = BruteForceBm25(list(enumerate(texts)), WORDS_ONLY)
    found = index.rank(query, 3)
    assert found.scores[0] > 2**31
    assert found.scores.tolist() == [score for score, _ in oracle.rank(query, 3)]


@given(
    texts=st.lists(
        st.one_of(
            st.lists(
                st.sampled_from(
                    [
                        "Wi-Fi",
                        "b",
                        "x_y",
                        "word",
                        "Words",
                        "3.5",
                        "t-test",
                        "caf\u00e9",
                        "\x01",
                        "\u5317\u4eac",
                    ]
                ),
                max_size=8,
            ).map(" ".join),
            st.just("long words " * 7000),
            st.text(max_size=8),
        ),
        max_size=8,
    )
)
@pytest.mark.parametrize("compiled", [True, False])
@settings(max_examples=60, deadline=None)
def test_texts_that_are_split_together_have_the_terms_that_each_has(
    texts: list[str], compiled: bool
) -> None:
    analyzer = ANALYZERS["english"]
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(kernel, "native", None)
        index = LexicalIndex.build(0, analyzer, enumerate(texts), forms=True)
    rows_of: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        for term in {*analyzer.terms(text), *analyzer.stem(other_forms(text, analyzer))}:
            rows_of.setdefault(term, []).append(row)
    assert len(index.vocabulary) == len(rows_of)
    assert {term: index.rows_with(term).tolist() for term in rows_of} == rows_of
    (segment,) = index.texts.segments
    assert segment.lengths.tolist() == [len(analyzer.terms(text)) for text in texts]


def test_a_write_leaves_the_index_before_it_as_it_was() -> None:
    index = indexed(["old words", "other words"])
    later = index.with_changes(1, [(2, "new old words")], np.array([0]))
    assert index.rank("new", 5).rows.tolist() == []
    assert index.rank("old", 5).rows.tolist() == [0]
    assert later.rank("old", 5).rows.tolist() == [2]


@given(
    values=st.lists(st.integers(0, 5), max_size=60),
    group=st.sampled_from([1, 2, 3, 256]),
    k=st.integers(1, 65),
    least=st.integers(1, 6),
)
def test_the_best_are_a_stable_sort_and_the_rest_as_high_as_asked(
    values: list[int], group: int, k: int, least: int
) -> None:
    scores = np.array(values, dtype=np.int32)
    rows = 10 + 2 * np.arange(len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical, "GROUP", group)
        found = lexical.Matches([(rows, scores)])
        best, high = found.best(k), found.at_least(least)
        among = found.best(k, rows[::2])
    expected = [position for position in np.argsort(-scores, kind="stable") if scores[position] > 0]
    assert best.rows.tolist() == [10 + 2 * position for position in expected[:k]]
    assert best.scores.tolist() == [values[position] for position in expected[:k]]
    assert (
        among.rows.tolist() == [10 + 2 * position for position in expected if position % 2 == 0][:k]
    )
    assert high.rows.tolist() == [10 + 2 * n for n, value in enumerate(values) if value >= least]


def test_compaction_is_asked_for_once_much_was_tombstones() -> None:
    index = indexed(["some words"] * 8)
    assert not index.needs_compaction
    fewer = index.with_changes(1, [], np.array([1, 3, 5]))
    assert fewer.needs_compaction
    assert not fewer.compacted().needs_compaction
    assert len(fewer.compacted()) == 5


@pytest.mark.parametrize("compacts", [True, False])
def test_words_of_deleted_documents_are_forgotten_by_compaction(
    monkeypatch: pytest.MonkeyPatch, compacts: bool
) -> None:
    """One document is replaced again and again, each time with other words."""
    monkeypatch.setattr("hummingbit.index.lexical.MIN_UNUSED", 100)
    index = LexicalIndex.build(
        0, WORDS_ONLY, [(0, "common title\nThe first sentence. Another one.")]
    )
    largest = 0
    for row in range(1, 400):
        text = f"common word{row} other{row}\nThe first{row} sentence. Another one."
        index = index.with_changes(row, [(row, text)], np.array([row - 1]))
        largest = max(largest, len(index.vocabulary))
        if compacts and index.needs_compaction:
            index = index.compacted()
    assert (largest <= 110) == compacts
    compacted = index.compacted()
    assert len(compacted.vocabulary) < 20
    anew = LexicalIndex.build(0, WORDS_ONLY, [(399, text)])
    for item in (index, compacted):
        for query in ("word399 first399", "common sentence", "word1", "nothing"):
            weighed, expected = item.weigh(query, hybrid=True), anew.weigh(query, hybrid=True)
            assert weighed.statistics == expected.statistics
            found, wanted = item.matches(weighed).best(9), anew.matches(expected).best(9)
            assert found.rows.tolist() == wanted.rows.tolist()
            assert found.scores.tolist() == wanted.scores.tolist()


def test_a_compaction_leaves_the_index_before_it_as_it_was() -> None:
    index = LexicalIndex.build(0, WORDS_ONLY, [(row, f"word{row} common") for row in range(50)])
    fewer = index.with_changes(1, [], np.arange(49))
    compacted = fewer.compacted()
    assert len(compacted.vocabulary) == 2
    later = compacted.with_changes(2, [(50, "common later")], np.arange(0))
    assert later.rank("later common", 9).rows.tolist() == [50, 49]
    assert fewer.rank("word49", 9).rows.tolist() == [49]
    assert index.rank("word7", 9).rows.tolist() == [7]
    assert fewer.with_changes(2, [(50, "word7")], np.arange(0)).rank("word7", 9).rows.tolist() == [
        50
    ]


@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.sampled_from(
                "of Of the cat cats beta 3 3.5 v2.0beta x1,299beta 5.beta beta.5 beta_2 2beta a"
                " café can't x-ray 0x1f #5 beta. (the) of,the \x1e".split(" ")
            ),
            max_size=8,
        ).map(" ".join),
        max_size=12,
    ),
    phrase=st.sampled_from(
        ["of the", "the cat", "of the cat", "beta cats", "of of", "the x ray", "a cat"]
    ),
    forms=st.booleans(),
)
def test_texts_with_a_phrase_are_those_whose_words_have_it(
    texts: list[str], phrase: str, *, forms: bool
) -> None:
    index = LexicalIndex.build(0, ANALYZERS["english"], [], forms=forms)
    terms = [term for term, *_ in index.words_of(phrase)]
    if len(terms) > 1:
        have = [words_in_order(index.words_of(text), terms) for text in texts]
        assert index.have_phrase(texts, terms) == have
