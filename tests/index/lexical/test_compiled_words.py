"""What the kernel computes of words, held to what numpy computes, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.analyzers import BOUNDARY, VISIBLE, Analyzer, with_plain_signs
from hummingbit.encoder.spelling import QueryTerms
from hummingbit.index.engines import kernel
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.lexical import (
    ANALYZERS,
    DEFAULT_ANALYZER,
    LexicalIndex,
    PostingLists,
    ScoredRows,
)
from hummingbit.index.moments import CodeMoments
from hummingbit.index.rankings import HybridRanking, RankedRows
from hummingbit.index.records import EncodedQueries
from hummingbit.index.word_forms import other_forms
from tests.support.codes import clustered_codes
from tests.support.collections import text_documents
from tests.support.encoders import random_texts

ANALYZER = ANALYZERS[DEFAULT_ANALYZER]

pytestmark = pytest.mark.skipif(kernel.native is None, reason="the kernel was not built")


@contextmanager
def by_numpy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "native", None)
        yield


def texts_of(n_documents: int, seed: int) -> list[str]:
    texts = [document.text or "" for document in text_documents(n_documents, seed)]
    return [f"{text}. {text[::-1]} end" if at % 3 else text for at, text in enumerate(texts)]


def index_of(texts: list[str], rng: np.random.Generator) -> LexicalIndex:
    """Return an index in several segments, with tombstones, of texts under every second row."""
    numbered = [(2 * at, text) for at, text in enumerate(texts)]
    n_first = int(rng.integers(len(texts) + 1))
    index = LexicalIndex.build(0, ANALYZER, numbered[:n_first], forms=bool(rng.integers(2)))
    removed = np.flatnonzero(rng.random(n_first) < 0.2) * 2
    return index.with_changes(1, numbered[n_first:], removed)


def lists(found: ScoredRows | RankedRows) -> list[list[float]]:
    return [found.rows.tolist(), found.scores.tolist()]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_documents=st.integers(1, 700), k=st.integers(1, 40))
def test_scores_by_words_and_the_best_of_them_are_those_of_numpy(
    seed: int, n_documents: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    index = index_of(texts_of(n_documents, seed), rng)
    # With so many repeats, scores need 64 bits.
    for query in (random_texts(1, seed + 1)[0], "apple " * 3, "apple " * 2000, "unknownword"):
        for hybrid in (False, True):
            weighed = index.weigh(query, hybrid=hybrid)
            found = index.matches(weighed)
            with by_numpy():
                expected = index.matches(weighed)
            for (rows, scores), (of_numpy, others) in zip(found.parts, expected.parts, strict=True):
                assert rows is of_numpy
                assert scores.dtype == others.dtype
                assert scores.tolist() == others.tolist()
            best = found.best(k)
            assert lists(index.best(weighed, k)) == lists(best)
            with by_numpy():
                assert lists(best) == lists(expected.best(k))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_documents=st.integers(1, 3000),
    k=st.integers(1, 60),
    share_removed=st.sampled_from([0.0, 0.3]),
)
def test_the_best_for_rare_and_frequent_terms_are_the_best_of_all_scores(
    seed: int, n_documents: int, k: int, share_removed: float
) -> None:
    rng = np.random.default_rng(seed)
    # Word i is in about one in i + 1 documents.
    words = [f"w{at}" for at in range(60)]
    texts = [
        " ".join(word for at, word in enumerate(words) if rng.random() < 1 / (at + 1)) or "none"
        for _ in range(n_documents)
    ]
    index = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    removed = np.flatnonzero(rng.random(n_documents) < share_removed)
    index = index.with_changes(1, [], removed)
    for _ in range(5):
        some = rng.choice(60, 4, replace=False)
        weighed = index.weigh(" ".join(["w0 w1", *(words[at] for at in some)]))
        assert lists(index.best(weighed, k)) == lists(index.matches(weighed).best(k))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_documents=st.integers(1, 300),
    k=st.integers(1, 40),
    engine=st.sampled_from([("lookup", 16), ("lookup", 64), ("scan", 24), ("halves", 72)]),
    weight=st.sampled_from([0.01, 0.5, 20.0]),
    has_texts=st.sampled_from([0.3, 1.0]),
    is_recognized=st.booleans(),
)
def test_the_best_by_words_and_codes_are_those_of_numpy(
    *,
    seed: int,
    n_documents: int,
    k: int,
    engine: tuple[str, int],
    weight: float,
    has_texts: float,
    is_recognized: bool,
) -> None:
    rng = np.random.default_rng(seed)
    index_type, n_bits = engine
    rows = np.arange(n_documents) * 2
    codes = clustered_codes(rng, n_documents, n_bits, centres=3)
    numbered = [
        (2 * at, text)
        for at, text in enumerate(texts_of(n_documents, seed))
        if rng.random() < has_texts
    ]
    removed = rows[rng.random(n_documents) < 0.2][:-1]
    lexical = LexicalIndex.build(0, ANALYZER, numbered)

    def generation() -> IndexSnapshot:
        nothing = np.empty(0, dtype=np.int64)
        whole = IndexSnapshot.build(0, codes, rows, index_type)
        return whole.with_changes(1, codes[:0], nothing, removed)

    lexical = lexical.with_changes(1, [], removed)
    moments = CodeMoments.of_codes(codes[~np.isin(rows, removed)])
    weights = rng.normal(size=(1, n_bits)).astype(np.float32)
    terms = QueryTerms(int(is_recognized), (), 1)
    question = lexical.read(random_texts(1, seed + 1)[0])
    query = replace(EncodedQueries.of_texts([question], weights), terms=[terms])
    searched = generation()
    ranking = HybridRanking(searched, moments, lexical, weight)
    (found,) = ranking.rank(query, k)
    every = searched.all_live_rows()
    (filtered,) = ranking.rank(query, k, every)
    with by_numpy():
        ranking = HybridRanking(generation(), moments, lexical, weight)
        (expected,) = ranking.rank(query, k)
    assert lists(found) == lists(expected) == lists(filtered)
    assert found.statistics == expected.statistics
    some = rows[rng.random(n_documents) < 0.5]
    some.setflags(write=False)
    (among_some,) = HybridRanking(searched, moments, lexical, weight).rank(query, k, some)
    weighed = lexical.weigh(question)
    by_words = lists(lexical.best(weighed, k, some))
    with by_numpy():
        ranking = HybridRanking(generation(), moments, lexical, weight)
        assert lists(among_some) == lists(ranking.rank(query, k, some)[0])
        assert by_words == lists(lexical.best(weighed, k, some))


@pytest.mark.parametrize("repeats", [1, 2000])
def test_each_query_begins_with_zeros_for_many_millions_of_documents(repeats: int) -> None:
    texts = ["wolves and a lion", "lion. wolf bear", "the wolf", "a bear"]
    few = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    (segment,) = few.texts.segments
    # Their scores take more than 32 MB.
    lists_of_many = PostingLists((replace(segment, rows=np.arange(2**23 + 1)),))
    many = replace(few, texts=lists_of_many)
    for query in ("lion wolf " * repeats, "bear", "wolves", "lion wolf " * repeats):
        weighed = few.weigh(query)
        expected = lists(few.best(weighed, 3))
        assert expected[0]
        assert lists(many.best(weighed, 3)) == expected
        assert lists(many.matches(weighed).best(3)) == expected


def test_postings_out_of_bounds_are_refused() -> None:
    index = LexicalIndex.build(0, ANALYZER, enumerate(["lion wolf", "lion. wolf bear"]))
    (segment,) = index.texts.segments
    weighed = index.weigh("lion wolf", hybrid=True)
    segment.positions[0] = 2
    with pytest.raises(ValueError, match="a posting is out of bounds"):
        index.matches(weighed)
    segment.positions[0] = 0
    segment.impact_of[:] = 200
    with pytest.raises(ValueError, match="a posting is out of bounds"):
        index.matches(weighed)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_documents=st.integers(1, 700))
def test_the_documents_that_have_all_terms_are_those_that_have_each(
    seed: int, n_documents: int
) -> None:
    rng = np.random.default_rng(seed)
    index = index_of(texts_of(n_documents, seed), rng)
    used = np.unique(index.texts.terms())
    for n_terms in range(5):
        numbers = rng.choice(used, min(n_terms, len(used)), replace=False).tolist()
        with_each = [{*index.texts.rows_with(number).tolist()} for number in numbers]
        expected = sorted(set.intersection(*with_each)) if with_each else []
        assert index.texts.rows_with_all(numbers).tolist() == expected
        with by_numpy():
            assert index.texts.rows_with_all(numbers).tolist() == expected


CHUNKS = st.one_of(
    st.text(st.sampled_from("aAbBvVxX019.,-_'&:/+#@*()\"=\x02"), max_size=70),
    st.lists(
        st.sampled_from(
            [
                "Wi",
                "Fi",
                "wifi",
                "HTTP",
                "DDF",
                "484",
                "Z",
                "x",
                "-",
                "_",
                ".",
                "'",
                "&",
                "+",
                "#",
                "v",
                "0x",
                "1",
                "000",
                ",",
                "2.17",
                "/",
                "@",
                "(",
                ")",
                ":",
                "C",
                "Net",
                "(s)",
                "8aF",
            ]
        ),
        max_size=9,
    ).map("".join),
)
TEXTS = st.lists(st.lists(CHUNKS, max_size=4).map(" ".join) | st.text("\t\x1c\n ab", max_size=5))


@settings(max_examples=500, deadline=None)
@given(texts=TEXTS, with_forms=st.booleans())
def test_the_words_of_texts_and_their_other_forms_are_those_of_python(
    *, texts: list[str], with_forms: bool
) -> None:
    joined = BOUNDARY.join([*texts, ""]).encode("ascii")
    lengths, totals = np.empty((2, len(texts)), dtype=np.int64)
    numbers, strings = kernel.native.split_texts(
        len(joined), joined, ord(BOUNDARY), len(texts), with_forms, lengths, totals
    )
    distinct = strings.decode("ascii").splitlines()
    assert len({*distinct}) == len(distinct)
    found = iter(np.frombuffer(numbers, dtype=np.int32).tolist())
    for text, length, total in zip(texts, lengths.tolist(), totals.tolist(), strict=True):
        terms = [distinct[next(found)] for _ in range(total)]
        assert terms[:length] == VISIBLE.split(text)
        assert terms[length:] == (other_forms(text) if with_forms else [])
    assert next(found, None) is None


def test_another_number_of_texts_is_refused() -> None:
    lengths, totals = np.empty((2, 2), dtype=np.int64)
    for joined in (b"a\x01", b"a\x01b\x01c\x01", b"a\x01b"):
        with pytest.raises(ValueError, match="number of texts"):
            kernel.native.split_texts(len(joined), joined, 1, 2, True, lengths, totals)


@settings(max_examples=500, deadline=None)
@given(
    text=st.lists(
        st.sampled_from(
            [*"aB1.-_,'&+#@(: \u2019\u2018\u201c\u201d\u2026\u00a0\u2013\u2014", "Wi", "000"]
        ),
        max_size=20,
    ).map("".join),
    base=st.sampled_from(["visible", "unicode"]),
)
def test_texts_with_plain_signs_have_the_same_words_and_forms(*, text: str, base: Any) -> None:
    plain, analyzer = with_plain_signs(text), Analyzer(base)
    assert plain.isascii() or any(sign in text for sign in "+#&")
    assert analyzer.split(plain) == analyzer.split(text)
    assert other_forms(plain, analyzer) == other_forms(text, analyzer)
