from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_from_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import Query
from tests.support.collections import code_collection, code_documents
from tests.support.encoders import random_texts, text_encoder, vector_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    write_artifact(tmp_path / "encoders" / "numbers", vector_encoder(n_bits=16), vectors)
    return tmp_path


def test_reranking_reorders_the_hits_by_the_probabilities_of_the_query(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        texts = random_texts(80, seed=3)
        collection.upsert([Document(id=f"d{i}", text=text) for i, text in enumerate(texts)])
        query = Query(text="apple matrix honey")
        plain = collection.search([query], 30, ranking="hamming")
        result = collection.search([query], 30, rerank=True, with_code=True)
        encoder = data.encoders.load("words")
    assert (plain.reranked, result.reranked) == (False, True)
    assert {hit.id for hit in result.hits[0]} == {hit.id for hit in plain.hits[0]}
    assert [hit.id for hit in result.hits[0]] != [hit.id for hit in plain.hits[0]]
    assert all(hit.rerank_score is None and hit.code is None for hit in plain.hits[0])
    logits = encoder.logits([query.text or ""])[0].astype(float) - encoder.thresholds.astype(float)
    alpha = [1 / (1 + np.exp(-logit)) for logit in logits]
    for hit in result.hits[0]:
        bits = np.unpackbits(code_from_hex(hit.code or "", 32))
        score = sum(abs(a - c) for a, c in zip(alpha, bits.tolist(), strict=True))
        assert hit.rerank_score == pytest.approx(score, abs=32 * 2**-22)  # float32 margins
    order = [(hit.rerank_score, hit.distance, hit.row) for hit in result.hits[0]]
    assert order == sorted(order)


def test_reranked_pages_hold_what_plain_pages_hold(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        texts = random_texts(50, seed=4)
        collection.upsert([Document(id=f"d{i}", text=text) for i, text in enumerate(texts)])
        query = Query(text="vector jam")
        cursor = None
        for _ in range(5):
            plain = collection.search([query], 7, cursor=cursor, ranking="hamming")
            ranked = collection.search([query], 7, cursor=cursor, rerank=True)
            assert {hit.id for hit in plain.hits[0]} == {hit.id for hit in ranked.hits[0]}
            assert plain.next_cursors == ranked.next_cursors
            (cursor,) = ranked.next_cursors


def test_vectors_are_reranked_too(folder: Path) -> None:
    rng = np.random.default_rng(5)
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="numbers")
        vectors = rng.normal(size=(30, 6)).astype(np.float32)
        collection.upsert([Document(id=f"d{i}", vector=vector) for i, vector in enumerate(vectors)])
        result = collection.search([Query(vector=vectors[0])], 30, rerank=True)
        assert [hit.rerank_score for hit in result.hits[0]] == sorted(
            hit.rerank_score or 0.0 for hit in result.hits[0]
        )
        assert collection.search([], 3, rerank=True).hits == []


def test_reranking_needs_probabilities(folder: Path, tmp_path: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        collection.upsert([Document(id="a", text="jam")])
        for query in (Query(code="00" * 4), Query(id="a")):
            with pytest.raises(InputError, match="rerank: needs a text or a vector") as caught:
                collection.search([Query(text="jam"), query], 1, rerank=True)
            assert caught.value.position == 1
    with closing(code_collection(tmp_path)) as codes:
        codes.upsert(code_documents(["0000"]))
        with pytest.raises(InputError, match="rerank"):
            codes.search([Query(code="0000")], 1, rerank=True)


def test_codes_of_another_shape_are_refused(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        documents = code_documents(["0000", "0001"])
        with pytest.raises(
            InputError, match=r"codes: are uint8\[2, 3\]; they must be uint8\[2, 2\]"
        ):
            collection.upsert_encoded(documents, np.zeros((2, 3), dtype=np.uint8))
        assert len(collection) == 0


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric"])
def test_a_text_of_unknown_words_finds_nothing_by_codes(folder: Path, ranking: str) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        texts = random_texts(30, seed=5)
        collection.upsert([Document(id=f"d{i}", text=text) for i, text in enumerate(texts)])
        queries = [Query(text="zzqx blorp"), Query(text="aple honey"), Query(id="d3")]
        result = collection.search(queries, 5, ranking=ranking)
        corrected = collection.search([Query(text="apple honey")], 5, ranking=ranking)
    assert [len(hits) for hits in result.hits] == [0, 5, 5]
    assert result.hits[1] == corrected.hits[0]
    assert result.queries.terms == [(0, (), 2), (2, (), 0), None]
    assert result.of_query(1).corrected == [("aple", "apple")]
    assert not result.ties_cut[0]


def test_a_text_that_the_encoder_does_not_know_is_found_by_its_words(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", encoder="words")
        texts = [*random_texts(10, seed=5), "apple blorp", "blorp"]
        collection.upsert([Document(id=f"d{i}", text=text) for i, text in enumerate(texts)])
        queries = [Query(text="zzqx blorp"), Query(text="zzqx")]
        by_words = collection.search(queries, 9, ranking="bm25")
        by_both = collection.search(queries, 9, ranking="hybrid")
    assert by_words.hits[0][2:] == []
    for result in (by_words, by_both):
        assert [[hit.id for hit in hits][:2] for hits in result.hits] == [["d11", "d10"], []]
    # Words alone rank without the encoder.
    assert [*by_words.queries.terms] == [None, None]
    assert [term and term.recognized_terms for term in by_both.queries.terms] == [0, 0]
