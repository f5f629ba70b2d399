from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from hummingbit.encoder import analyzers
from hummingbit.encoder import text_features as features_module
from hummingbit.encoder.analyzers import PIECE_LENGTH, Analyzer
from hummingbit.encoder.text_features import SparseRows, TermWeighting, TextFeatures, summary_of
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.foundation.cancellation import Cancelled, cancelled_by
from hummingbit.foundation.errors import InputError
from tests.support.encoders import WORDS, random_texts, text_encoder

texts = st.lists(st.text(max_size=60) | st.sampled_from(random_texts(20)), max_size=6)


def test_runs_of_words_follow_the_words() -> None:
    terms = TextFeatures(vocabulary=["aa"], max_words=3).terms("aa bb cc")
    assert terms == ["aa", "bb", "cc", "aa bb", "bb cc", "aa bb cc"]


@given(texts, st.integers(1, 3))
def test_counts_equal_scikit_learns(batch: list[str], max_words: int) -> None:
    vocabulary = [*WORDS, "apple bread", "matrix vector tensor"]
    reference = CountVectorizer(vocabulary=vocabulary, ngram_range=(1, max_words), dtype=np.float32)
    features = TextFeatures(vocabulary=vocabulary, max_words=max_words)
    expected = reference.transform(batch).toarray() if batch else np.zeros((0, len(vocabulary)))
    assert np.array_equal(features.count_terms(batch).toarray(), expected)


mixed = st.text(st.sampled_from("aA1_ -.\x01\n\tß京"), max_size=8) | st.sampled_from(
    random_texts(20)
)


@pytest.mark.parametrize(
    "name", ["words", "unicode", "unicode+english", "unicode+english+2-3grams"]
)
@given(st.lists(mixed, max_size=8), st.integers(1, 60))
def test_texts_are_counted_together_as_one_by_one(name: str, batch: list[str], size: int) -> None:
    analyzer = Analyzer.from_name(name)
    known = sorted({term for text in [*batch[::2], *WORDS] for term in analyzer.terms(text)})
    features = TextFeatures(vocabulary=[*known, "a", "1"], analyzer=analyzer)
    expected = np.zeros((len(batch), features.dimension))
    for row, text in enumerate(batch):
        for term in analyzer.terms(text):
            if term in features.vocabulary:
                expected[row, features._columns[term]] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyzers, "MAX_JOINED_LENGTH", size)
        assert np.array_equal(features.count_terms(batch).toarray(), expected)


@given(texts.filter(bool))
def test_tf_idf_equals_scikit_learns(batch: list[str]) -> None:
    counts = TextFeatures(vocabulary=WORDS).count_terms(batch)
    reference = TfidfTransformer().fit(counts)
    idf = reference.idf_.astype(np.float32)
    features = TextFeatures(vocabulary=WORDS, weighting="count", idf=idf, l2_normalize=True)
    np.testing.assert_allclose(
        features.transform(batch).toarray(), reference.transform(counts).toarray(), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("count", [3, 1]), ("log", [np.log(4), np.log(2)]), ("binary", [1, 1])],
)
def test_term_weightings(weighting: TermWeighting, expected: list[float]) -> None:
    features = TextFeatures(vocabulary=["yes", "no"], weighting=weighting)
    row = features.transform(["no yes yes unknown yes"]).toarray()[0]
    np.testing.assert_allclose(row, expected, rtol=1e-6)


def test_a_text_without_known_terms_is_a_row_of_zeros() -> None:
    features = TextFeatures(vocabulary=WORDS, l2_normalize=True)
    assert not features.transform(["", "nothing known"]).toarray().any()


@pytest.mark.parametrize("value", ["one text", [1], [None], [b"bytes"]])
def test_text_features_refuse_what_is_not_a_list_of_texts(value: object) -> None:
    with pytest.raises(InputError, match="sequence of strings"):
        TextFeatures(vocabulary=WORDS).transform(value)  # type: ignore[arg-type]


def test_vectors_are_scaled_to_unit_length_except_zero() -> None:
    rows = VectorFeatures(dimension=2, l2_normalize=True).transform(
        np.array([[3.0, 4.0], [0.0, 0.0]])
    )
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 3)), "has 3 numbers; this encoder takes vectors of 2"),
        (np.zeros(2), "is not a list"),
        (np.array([[1.0, np.nan]]), "NaN or infinity"),
        (np.array([[1.0, 1e300]]), "NaN or infinity"),
        (np.array([["a", "b"]]), "this encoder takes vectors"),
    ],
)
def test_vector_features_refuse_what_does_not_fit(rows: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        VectorFeatures(dimension=2).transform(rows)


def test_unknown_words_of_a_query_count_as_the_known_ones_one_edit_away() -> None:
    features = TextFeatures(["account", "balance"], weighting="count", idf=np.array([1, 2], "f"))
    rows, known = features.transform_queries(["Acount of blance acount", "balance", "nothing", ""])
    assert rows.toarray().tolist() == [[2, 2], [0, 2], [0, 0], [0, 0]]
    assert known[0][:2] == (2, (("acount", "account"), ("blance", "balance")))
    assert [item.recognized_terms for item in known] == [2, 1, 0, 0]
    assert not any(item.corrected for item in known[1:])


def test_the_most_frequent_of_the_words_one_edit_away_is_taken() -> None:
    words, idf = ["form", "from", "fork"], np.array([3, 1, 1], dtype=np.float32)
    (known,) = TextFeatures(words, idf=idf).transform_queries(["frok"])[1]
    assert known.corrected == (("frok", "from"),)
    (known,) = TextFeatures(words, idf=idf).transform_queries(["fomm"])[1]
    assert known.corrected == (("fomm", "form"),)
    (known,) = TextFeatures(words[:2], idf=idf[:2]).transform_queries(["forn"])[1]
    assert known.corrected == (("forn", "form"),)


@given(texts.filter(bool), st.integers(1, 9))
def test_a_long_text_has_the_features_that_it_would_have_as_a_whole(
    batch: list[str], size: int
) -> None:
    for max_words in (1, 2):
        features = TextFeatures(vocabulary=WORDS, max_words=max_words)
        rows, known = features.transform(batch), features.transform_queries(batch)
        with pytest.MonkeyPatch.context() as patch:
            for module in (analyzers, features_module):
                patch.setattr(module, "PIECE_LENGTH", size)
            assert np.array_equal(features.transform(batch).toarray(), rows.toarray())
            query_rows, query_terms = features.transform_queries(batch)
        assert np.array_equal(query_rows.toarray(), known[0].toarray())
        assert query_terms == known[1]


@given(texts.filter(bool))
def test_queries_of_known_words_have_the_features_of_documents(batch: list[str]) -> None:
    features = TextFeatures(vocabulary=WORDS)
    known = [[word for word in features.terms(text) if word in WORDS] for text in batch]
    plain = [" ".join(words) for words in known]
    rows, terms = features.transform_queries(plain)
    assert np.array_equal(rows.toarray(), features.transform(plain).toarray())
    assert [term.recognized_terms for term in terms] == [len(set(words)) for words in known]


ANALYZERS = ["words", "unicode", "unicode+english", "unicode+3-5grams", "unicode+german+2-3grams"]


@settings(deadline=None)
@given(
    batch=texts.filter(bool),
    analyzer=st.sampled_from(ANALYZERS),
    weighting=st.sampled_from(get_args(TermWeighting)),
    max_words=st.integers(1, 2),
    with_idf=st.booleans(),
    l2_normalize=st.booleans(),
)
def test_a_query_read_alone_has_the_features_of_a_batch_bit_for_bit(
    *,
    batch: list[str],
    analyzer: str,
    weighting: TermWeighting,
    max_words: int,
    with_idf: bool,
    l2_normalize: bool,
) -> None:
    plain = TextFeatures(WORDS, max_words=max_words, analyzer=Analyzer.from_name(analyzer))
    vocabulary = sorted({*WORDS, *plain.terms(" ".join([*WORDS, *batch[::2]]))})
    idf = np.random.default_rng(0).random(len(vocabulary), dtype=np.float32) + 1
    features = replace(
        plain,
        vocabulary=vocabulary,
        weighting=weighting,
        idf=idf if with_idf else None,
        l2_normalize=l2_normalize,
    )
    rows, known = features.transform_queries(batch)
    for position, text in enumerate(batch):
        alone, terms = features.read_query(text)
        part = slice(rows.indptr[position], rows.indptr[position + 1])
        assert alone.columns.tolist() == rows.indices[part].tolist()
        assert alone.values.tobytes() == rows.data[part].tobytes()
        assert terms == known[position]


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="sequence of strings"):
        TextFeatures(WORDS).read_query(7)  # type: ignore[arg-type]


def test_encoding_many_texts_ends_once_nobody_waits() -> None:
    encoder = text_encoder()
    for encode in (encoder.query_weights, encoder.logits):
        looks = iter([False, False, True])
        with cancelled_by(looks.__next__), pytest.raises(Cancelled):
            encode(["butter"] * 5_000)


def test_runs_of_words_across_the_lists_of_a_long_text_are_counted() -> None:
    words = [f"w{number}" for number in range(3_000)]
    features = TextFeatures([f"{item} {next_}" for item, next_ in pairwise(words)], max_words=2)
    counts = features.count_terms([" ".join(words)])
    assert len(" ".join(words)) > PIECE_LENGTH
    assert counts.toarray().tolist() == [[1.0] * 2_999]


DOCUMENT = "apple\nbread matrix. vector apple tensor\nmatrix"


def unit(row: np.ndarray) -> np.ndarray:
    """`row` at length 1."""
    length = np.linalg.norm(row)
    return row / length if length else row


def summarizing_features(weight: float, weighting: TermWeighting = "count") -> TextFeatures:
    """Features over :data:`WORDS` with idf and a summary weight."""
    idf = np.linspace(1, 3, len(WORDS)).astype(np.float32)
    return TextFeatures(
        vocabulary=WORDS, weighting=weighting, idf=idf, l2_normalize=True, summary_weight=weight
    )


def documents(features: TextFeatures, batch: list[str]) -> SparseRows:
    """The rows of documents, as the network of an encoder reads them."""
    return features.add_summaries(features.transform(batch), batch)


@pytest.mark.parametrize("weighting", get_args(TermWeighting))
@given(text=st.lists(st.sampled_from([*WORDS, "\n", ". ", "unknown"]), max_size=12).map(" ".join))
def test_the_row_of_a_document_is_that_of_its_text_and_its_summary(
    text: str, weighting: TermWeighting
) -> None:
    plain = summarizing_features(0.0, weighting)
    whole, summary = plain.transform([text, summary_of(text)]).toarray().astype(np.float64)
    expected = unit(whole + 2.5 * summary)
    row = documents(summarizing_features(2.5, weighting), [text])
    assert row.dtype == np.float32
    np.testing.assert_allclose(row.toarray()[0], expected, atol=1e-6)


def test_the_row_of_a_query_has_no_summary() -> None:
    plain, summarizing = summarizing_features(0.0), summarizing_features(2.5)
    rows, _ = summarizing.transform_queries([DOCUMENT])
    assert np.array_equal(rows.toarray(), plain.transform([DOCUMENT]).toarray())
    row, _ = summarizing.read_query(DOCUMENT)
    assert np.array_equal(row.values, rows.data)


@given(texts.filter(bool))
def test_the_row_of_a_document_does_not_depend_on_the_others(batch: list[str]) -> None:
    features = summarizing_features(2.5)
    together = documents(features, [*batch, DOCUMENT]).toarray()
    alone = [documents(features, [text]).toarray()[0] for text in [*batch, DOCUMENT]]
    assert np.array_equal(together, np.stack(alone))


def test_a_document_of_one_sentence_has_the_row_of_its_text() -> None:
    batch = [*random_texts(50), " apple bread.\n", "", "?"]
    plain, summarizing = summarizing_features(0.0), summarizing_features(2.5)
    expected, rows = plain.transform(batch), documents(summarizing, batch)
    assert np.array_equal(rows.indices, expected.indices)
    assert np.array_equal(rows.data, expected.data)


def test_a_summary_weight_needs_rows_of_unit_length() -> None:
    with pytest.raises(ValueError, match="summary_weight needs l2_normalize"):
        TextFeatures(vocabulary=WORDS, summary_weight=1.0)
