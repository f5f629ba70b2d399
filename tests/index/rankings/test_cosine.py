"""Rescoring by kept vectors, held to Python's own whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.filters import parse_filter
from hummingbit.index.kept_vectors import (
    pack_vector,
    unpack_vector,
)
from hummingbit.index.names import (
    FORMS,
    INT8,
    NONE,
)
from hummingbit.index.options import Rescore
from hummingbit.index.rankings import cosines, whole_numbers
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.search import Hit
from hummingbit.index.store.store import Store
from tests.support.encoders import random_texts, spd_encoder, vector_encoder
from tests.support.matrices import spd_matrices

Floats = npt.NDArray[np.float32]
DIMENSION = 6
ANY_FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def oracle(query: Floats, document: Floats) -> float:
    """Return the cosine from exact sums of rounded numbers, without numpy's arithmetic."""
    bits = (53 - math.ceil(math.log2(len(query)))) // 2

    def rounded(vector: Floats) -> list[int]:
        largest = max(abs(float(x)) for x in vector)
        exponent = math.frexp(largest)[1]
        unit = Fraction(2) ** (exponent - bits)
        return [round(Fraction(float(x)) / unit) for x in vector]

    one, other = rounded(query), rounded(document)
    norms = math.sqrt(sum(x * x for x in other)) * math.sqrt(sum(x * x for x in one))
    product = sum(x * y for x, y in zip(one, other, strict=True))
    return min(1.0, max(-1.0, product / norms)) if norms else 0.0


@given(st.integers(1, 40).flatmap(lambda d: arrays(np.float32, (5, d), elements=ANY_FLOAT32)))
def test_cosines_are_exact_sums_of_rounded_numbers(vectors: Floats) -> None:
    query, documents = vectors[0], vectors[1:]
    found = cosines(whole_numbers(query[None])[0], whole_numbers(documents))
    assert found.tolist() == [oracle(query, document) for document in documents]
    alone = [
        cosines(whole_numbers(query[None])[0], whole_numbers(document[None]))[0]
        for document in documents
    ]
    assert found.tolist() == alone


@pytest.mark.parametrize("dimension", [1, 3, 384, 1000, 4096])
def test_rounding_changes_little(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    query, *documents = rng.normal(size=(50, dimension)).astype(np.float32)
    found = cosines(whole_numbers(query[None])[0], whole_numbers(np.stack(documents)))
    wide = np.stack(documents).astype(np.longdouble), query.astype(np.longdouble)
    exact = wide[0] @ wide[1] / np.sqrt((wide[0] ** 2).sum(axis=1) * (wide[1] ** 2).sum())
    assert np.abs(found - exact).max() < 1e-6


def vectors_of(count: int, seed: int) -> Floats:
    # Few distinct directions, so that some documents have the same score.
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(max(2, count // 2), DIMENSION))
    chosen = directions[rng.integers(len(directions), size=count)]
    scaled = chosen * 2.0 ** rng.integers(-3, 3, size=(count, 1))
    return np.asarray(scaled, dtype=np.float32)


def make(folder: Path, form: str) -> Collection:
    path, encoder = folder / "store.sqlite", vector_encoder(16, DIMENSION)
    description = Description("v", 16, "e", encoder.fingerprint, keep_vectors=form)
    Store.create(path, description)
    return Collection(Store(path, writable=True), encoder)


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with closing(make(tmp_path, INT8)) as collection:
        fill(collection)
        yield collection


def fill(collection: Collection, count: int = 60) -> None:
    texts = random_texts(count)
    collection.upsert(
        Document(f"d{at}", texts[at], vector, payload={"third": at % 3})
        for at, vector in enumerate(vectors_of(count, seed=0))
    )


def kept(collection: Collection) -> dict[int, Floats]:
    stored = collection.all_documents()
    return {document.row: document.vector for document in stored if document.vector is not None}


def in_order(
    vectors: dict[int, Floats], rows: Sequence[int], query: Floats
) -> list[tuple[float, int]]:
    scored = [(oracle(query, vectors[row]), row) for row in rows]
    return sorted(scored, key=lambda item: (-item[0], item[1]))


def scores_and_rows(hits: Sequence[Hit]) -> list[tuple[float, int]]:
    return [(hit.score, hit.row) for hit in hits]


@pytest.mark.parametrize("form", [form for form in FORMS if form != NONE])
@pytest.mark.parametrize("ranking", ["hamming", "asymmetric"])
def test_the_candidates_of_a_ranking_are_ordered_by_cosine(
    tmp_path: Path, form: str, ranking: str
) -> None:
    with closing(make(tmp_path, form)) as collection:
        fill(collection)
        vectors = kept(collection)
        queries = [Query(vector=vector) for vector in vectors_of(9, seed=1)]
        search = partial(
            collection.search, k=4, ranking=ranking, offset=1, rescore=Rescore("vectors", 3)
        )
        result = search(queries)
        first = collection.search(queries, 15, ranking=ranking)
        for query, hits, candidates in zip(queries, result.hits, first.hits, strict=True):
            assert query.vector is not None
            ordered = in_order(vectors, [hit.row for hit in candidates], query.vector)
            assert scores_and_rows(hits) == ordered[1:5]
        assert (result.rescored_by, result.candidates) == ("vectors", 15)
        assert result.rankings == [ranking] * 9
        alone = [
            collection.search([query], 4, ranking=ranking, offset=1, rescore=Rescore("vectors", 3))
            for query in queries
        ]
        assert [item.hits[0] for item in alone] == result.hits


def test_with_candidates_enough_pages_are_those_of_an_exact_search(
    collection: Collection,
) -> None:
    vectors = kept(collection)
    (query,) = vectors_of(1, seed=5)
    pages = [
        collection.search([Query(vector=query)], 7, offset=offset, rescore=Rescore("vectors", 60))
        for offset in range(0, 60, 7)
    ]
    hits = [hit for page in pages for hit in page.hits[0]]
    assert scores_and_rows(hits) == in_order(vectors, list(vectors), query)
    assert all(page.next_cursors == [None] for page in pages)


def test_a_filter_limits_the_candidates(collection: Collection) -> None:
    vectors = kept(collection)
    (query,) = vectors_of(1, seed=6)
    condition = parse_filter({"field": "third", "eq": 1})
    found = collection.search(
        [Query(vector=query)], 5, filter=condition, rescore=Rescore("vectors", 10)
    )
    rows = [row for row in vectors if (row - 1) % 3 == 1]
    assert scores_and_rows(found.hits[0]) == in_order(vectors, rows, query)[:5]


def test_documents_without_a_vector_come_last(collection: Collection) -> None:
    collection.upsert(
        [Document("coded", code="ffff"), Document("zero", vector=np.zeros(6, np.float32))]
    )
    (query,) = vectors_of(1, seed=7)
    hits = collection.search([Query(vector=query)], 62, rescore=Rescore("vectors", 1)).hits[0]
    score_of = {hit.id: hit.score for hit in hits}
    assert (score_of["coded"], score_of["zero"]) == (-1.0, 0.0)
    assert hits[-1].score == -1.0


def test_a_vector_of_another_length_counts_as_missing(collection: Collection) -> None:
    # Documents that come with their codes, as in an import, are not encoded and so not checked.
    odd = Document("odd", vector=np.ones(5, dtype=np.float32))
    collection.upsert_encoded([odd], np.zeros((1, 2), dtype=np.uint8))
    (query,) = vectors_of(1, seed=7)
    hits = collection.search([Query(vector=query)], 61, rescore=Rescore("vectors", 1)).hits[0]
    assert {hit.id: hit.score for hit in hits}["odd"] == -1.0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            Query(text="bread", vector=np.ones(6, dtype=np.float32), id="d1"),
            "an id goes with no other field",
        ),
        (Query(id="d1"), "by is 'vectors', which needs a vector as the query"),
        (Query(code="ffff"), "by is 'vectors', which needs a vector as the query"),
        (Query(text="bread"), "by is 'vectors', which needs a vector as the query"),
        (Query(vector=np.ones(7, dtype=np.float32)), "has 7 numbers; it must have 6"),
    ],
)
def test_queries_that_cannot_be_rescored_are_refused(
    collection: Collection, query: Query, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        collection.search([query], 3, rescore=Rescore("vectors"))


def test_a_collection_without_vectors_says_so(tmp_path: Path) -> None:
    with closing(make(tmp_path, NONE)) as collection:
        fill(collection)
        query = Query(vector=np.ones(6, dtype=np.float32))
        with pytest.raises(InputError, match="by is 'vectors', but the collection keeps no"):
            collection.search([query], 3, rescore=Rescore("vectors"))
        assert len(collection.search([query], 3).hits[0]) == 3


def test_matrices_have_no_cosine(tmp_path: Path) -> None:
    path, encoder = tmp_path / "store.sqlite", spd_encoder()
    Store.create(path, Description("m", 16, "e", encoder.fingerprint))
    with closing(Collection(Store(path, writable=True), encoder)) as collection:
        matrix = spd_matrices(1, 4)[0][np.triu_indices(4)].astype(np.float32)
        collection.upsert([Document("a", vector=matrix)])
        with pytest.raises(InputError, match="needs a vector as the query"):
            collection.search([Query(vector=matrix)], 1, rescore=Rescore("vectors"))


def test_a_search_runs_again_if_a_candidate_was_removed(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, removed = collection.store.read_vectors, islice(["d7", "d8"], 2)

    def remove_one(rows: Sequence[int]) -> dict[int, bytes | None]:
        for id_ in removed:
            collection.delete([id_])
            break
        return read(rows)

    monkeypatch.setattr(collection.store, "read_vectors", remove_one)
    (query,) = vectors_of(1, seed=8)
    result = collection.search([Query(vector=query)], 60, rescore=Rescore("vectors", 1))
    vectors = kept(collection)
    assert len(vectors) == 58
    assert scores_and_rows(result.hits[0]) == in_order(vectors, list(vectors), query)
    assert result.generation == collection.generation


def test_a_text_and_a_vector_are_searched_by_words_and_codes(collection: Collection) -> None:
    (vector,) = vectors_of(1, seed=9)
    (text,) = random_texts(1, seed=9)
    both, only = Query(text=text, vector=vector), Query(vector=vector)
    result = collection.search([both, only], 60)
    assert result.rankings == ["hybrid", "hamming"]
    explicit = collection.search([both], 60, ranking="hybrid")
    assert result.hits[0] == explicit.hits[0]
    assert result.hits[1] == collection.search([only], 60).hits[0]
    (hits,) = collection.search([both], 60, ranking="bm25").hits
    words = set(text.split())
    stored = {document.id: document.text or "" for document in collection.all_documents()}
    assert {hit.id for hit in hits} == {id_ for id_ in stored if words & set(stored[id_].split())}
    asymmetric = collection.search([both], 60, ranking="asymmetric").hits
    assert asymmetric == collection.search([only], 60, ranking="asymmetric").hits
    collection.set_ranking("asymmetric")
    assert collection.search([both, only], 5).rankings == ["hybrid", "asymmetric"]
    assert collection.search([both], 5, radius=16).rankings == ["hamming"]


def test_hits_by_words_and_codes_are_rescored_by_vectors(collection: Collection) -> None:
    (vector,) = vectors_of(1, seed=10)
    query = Query(text=random_texts(1, seed=10)[0], vector=vector)
    candidates = [hit.row for hit in collection.search([query], 20).hits[0]]
    result = collection.search([query], 5, rescore=Rescore("vectors"), highlight=True)
    assert pack_vector(vector, INT8) is not None
    assert scores_and_rows(result.hits[0]) == in_order(kept(collection), candidates, vector)[:5]
    assert any(hit.highlight is not None for hit in result.hits[0])
    assert unpack_vector(pack_vector(vector, INT8) or b"", INT8).shape == (DIMENSION,)
