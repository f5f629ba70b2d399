"""Each ranking beside its brute-force twin, and searches of collections by each."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import Codes, hamming_distance, unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import kernel
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.filters import parse_filter
from hummingbit.index.names import (
    ASYMMETRIC,
    HAMMING,
)
from hummingbit.index.rankings import (
    AsymmetricRanking,
    HammingRanking,
    quantize_weights,
)
from hummingbit.index.records import EncodedQueries, Query
from tests.support.codes import clustered_codes, random_rows
from tests.support.encoders import random_texts, text_encoder

TEXTS = random_texts(300, seed=1)
QUERIES = random_texts(12, seed=2)


def queries_of(weights: Floats) -> EncodedQueries:
    weighted = np.ones(len(weights), dtype=np.bool_)
    codes = np.packbits(weights > 0, axis=1)
    return EncodedQueries(codes, weights, [None] * len(weights), weighted, [None] * len(weights))


def exact_ranking(weights: Floats, codes: Codes, rows: Rows) -> list[tuple[int, int]]:
    """The twin: (row, score) by (score descending, row), in Python's whole numbers."""
    signs = (unpack_codes(codes).astype(int) * 2 - 1).tolist()
    largest = max((abs(float(weight)) for weight in weights), default=0.0)
    scale = Fraction(1)
    while largest and largest * scale > 2**20:
        scale /= 2
    while largest and largest * scale * 2 <= 2**20:
        scale *= 2
    if largest and largest * scale == 2**20:
        scale /= 2
    whole = [round(Fraction(float(weight)) * scale) for weight in weights]
    scored = [
        (row, sum(w * s for w, s in zip(whole, sign, strict=True)))
        for row, sign in zip(rows.tolist(), signs, strict=True)
    ]
    return sorted(scored, key=lambda item: (-item[1], item[0]))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 40, 200]),
    k=st.sampled_from([1, 7, 300]),
    scale=st.sampled_from([1e-3, 1.0, 40.0]),
)
def test_the_asymmetric_ranking_is_its_twin(seed: int, n: int, k: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    codes, rows = clustered_codes(rng, n, 32, centres=3), random_rows(rng, n)
    weights = (rng.normal(size=(4, 32)) * scale).astype(np.float32)
    weights[3] = np.sign(weights[3])
    ranking = AsymmetricRanking(IndexSnapshot.build(1, codes, rows))
    found = ranking.rank(queries_of(weights), k)
    for weight, (place_rows, scores, _) in zip(weights, found, strict=True):
        pairs = list(zip(place_rows.tolist(), scores.tolist(), strict=True))
        assert pairs == exact_ranking(weight, codes, rows)[:k]
    for at, hits in enumerate(found):
        again = ranking.score(queries_of(weights), at, hits.rows)
        assert again.tolist() == hits.scores.tolist()


def test_scores_are_the_log_probabilities_of_bits() -> None:
    rng = np.random.default_rng(5)
    codes, rows = clustered_codes(rng, 100, 16), np.arange(100)
    weights = rng.normal(size=(1, 16)).astype(np.float32)
    (found,) = AsymmetricRanking(IndexSnapshot.build(1, codes, rows)).rank(queries_of(weights), 100)
    p = 1 / (1 + np.exp(-weights[0].astype(np.float64)))
    bits = unpack_codes(codes)
    log_p = np.where(bits, np.log(p), np.log(1 - p)).sum(axis=1)[found.rows]
    scale = np.ldexp(1.0, 20 - int(np.frexp(np.abs(weights).max())[1]))
    difference = log_p - found.scores / scale / 2
    # Each rounded weight is off by half a unit at most.
    np.testing.assert_allclose(difference, difference[0], atol=16 / scale)


def test_a_ranking_by_hamming_distance_scores_the_rows_of_another() -> None:
    rng = np.random.default_rng(6)
    codes, rows = clustered_codes(rng, 200, 32), random_rows(rng, 200)
    generation = IndexSnapshot.build(1, codes[:150], rows[:150]).with_changes(
        2, codes[150:], rows[150:], rows[:0]
    )
    queries = EncodedQueries.of_codes(clustered_codes(rng, 2, 32))
    places = [rng.permutation(200)[:30], rng.permutation(200)[:5]]
    for at, place in enumerate(places):
        scores = HammingRanking(generation).score(queries, at, rows[place])
        assert scores.tolist() == (-hamming_distance(codes[place], queries.codes[at])).tolist()


@pytest.mark.parametrize("way", ["kernel", "without the kernel"])
def test_weights_are_scaled_by_a_power_of_two_and_rounded(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "without the kernel":
        monkeypatch.setattr(kernel, "native", None)
    weights = np.array([[0.5, -0.25, 1e-9, 0.3], [3.0, -1.0, 0.0, 2.0], [0, 0, 0, 0]], np.float32)
    whole, totals = quantize_weights(weights)
    assert whole[0].tolist() == [2**19, -(2**18), 0, round(float(np.float32(0.3)) * 2**20)]
    assert whole[1].tolist() == [3 * 2**18, -(2**18), 0, 2**19]
    assert whole[2].tolist() == [0, 0, 0, 0]
    assert totals.tolist() == np.abs(whole).sum(axis=1).tolist()


@given(seed=st.integers(0, 2**32 - 1), n_bits=st.sampled_from([8, 40, 1024]))
def test_weights_are_the_same_whole_numbers_without_the_kernel(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-149, 128, (3, 1)) - rng.integers(0, 40, (3, n_bits))
    weights = np.ldexp(rng.normal(size=(3, n_bits)), exponents).clip(-3e38, 3e38)
    # Halves are rounded to even numbers.
    weights[2] = rng.integers(-40, 40, n_bits) / 2
    weights[2, 0] = 2**19
    found = quantize_weights(weights.astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "native", None)
        expected = quantize_weights(weights.astype(np.float32))
    for item, other in zip(found, expected, strict=True):
        assert item.tolist() == other.tolist()
        assert item.dtype == other.dtype


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionBackend]:
    """Texts, a third of them replaced or deleted, in a base and a delta."""
    path = tmp_path_factory.mktemp("data")
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    with DataFolder(path, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        documents = [
            Document(id=f"d{i}", text=text, payload={"at": i}) for i, text in enumerate(TEXTS)
        ]
        collection.upsert(documents[:250])
        collection.delete([f"d{i}" for i in range(0, 250, 5)])
        collection.upsert(documents[200:])
        yield collection


def expected_hits(collection: CollectionBackend, text: str) -> list[tuple[str, int]]:
    """The whole order by the twin, as ids and scores."""
    encoder = collection.encoder
    assert isinstance(encoder, Encoder)
    stored = collection.all_documents()
    codes = np.array([np.frombuffer(bytes.fromhex(item.code), np.uint8) for item in stored])
    rows = np.array([item.row for item in stored])
    ids = {document.row: document.id for document in stored}
    ranked = exact_ranking(encoder.query_weights([text])[0], codes, rows)
    return [(ids[row], score) for row, score in ranked]


@pytest.mark.parametrize("text", QUERIES[:4])
def test_a_collection_is_searched_by_the_asymmetric_ranking(
    collection: CollectionBackend, text: str
) -> None:
    whole = expected_hits(collection, text)
    result = collection.search([Query(text=text)], 1000, ranking=ASYMMETRIC)
    (hits,) = result.hits
    assert (result.rankings, [hit.id for hit in hits]) == ([ASYMMETRIC], [id_ for id_, _ in whole])
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    code = result.queries.codes[0]
    for hit in hits[:20]:
        stored = collection.get(hit.id)
        assert stored is not None
        other = np.frombuffer(bytes.fromhex(stored.code), np.uint8)
        assert hit.distance == int(hamming_distance(other, code))
    paged: list[str] = []
    cursor = None
    while True:
        page = collection.search([Query(text=text)], 61, ranking=ASYMMETRIC, cursor=cursor)
        paged += [hit.id for hit in page.hits[0]]
        (cursor,) = page.next_cursors
        if cursor is None:
            break
    assert paged == [id_ for id_, _ in whole]
    offset = collection.search([Query(text=text)], 10, ranking=ASYMMETRIC, offset=100)
    assert [hit.id for hit in offset.hits[0]] == [id_ for id_, _ in whole[100:110]]


def test_batches_filters_and_single_searches_agree(collection: CollectionBackend) -> None:
    filter_ = parse_filter({"field": "at", "gte": 100})
    queries = [Query(text=text) for text in QUERIES]
    batch = collection.search(queries, 20, ranking=ASYMMETRIC, filter=filter_)
    for query, hits in zip(queries, batch.hits, strict=True):
        (alone,) = collection.search([query], 20, ranking=ASYMMETRIC, filter=filter_).hits
        whole = [id_ for id_, _ in expected_hits(collection, query.text or "")]
        kept = [id_ for id_ in whole if int(id_[1:]) >= 100][:20]
        assert [hit.id for hit in hits] == [hit.id for hit in alone] == kept


def test_a_code_says_no_more_than_its_bits(collection: CollectionBackend) -> None:
    for query in (Query(id="d3"), Query(code="0f" * 4)):
        by_bits = collection.search([query], 30)
        weighted = collection.search([query], 30, ranking=ASYMMETRIC)
        assert [hit.id for hit in weighted.hits[0]] == [hit.id for hit in by_bits.hits[0]]
        assert [hit.score for hit in weighted.hits[0]] == [hit.score for hit in by_bits.hits[0]]


def test_a_ranking_that_is_not_there_and_a_radius_are_refused(
    collection: CollectionBackend,
) -> None:
    query = Query(text="jam")
    with pytest.raises(InputError, match="ranking: is 'cosine'; it must be one of hamming, asym"):
        collection.search([query], 1, ranking="cosine")
    with pytest.raises(InputError, match="radius: is 3; the ranking 'asymmetric' has no radius"):
        collection.search([query], 1, 3, ranking=ASYMMETRIC)
    (cursor,) = collection.search([query], 1, ranking=HAMMING).next_cursors
    with pytest.raises(InputError, match="cursor"):
        collection.search([query], 1, ranking=ASYMMETRIC, cursor=cursor)


def test_hits_show_the_text_that_is_stored(collection: CollectionBackend) -> None:
    (hits,) = collection.search([Query(text="jam honey")], 5, with_text=True).hits
    assert [hit.text for hit in hits] == [TEXTS[int(hit.id[1:])] for hit in hits]
    (hits,) = collection.search([Query(text="jam honey")], 5).hits
    assert {hit.text for hit in hits} == {None}
