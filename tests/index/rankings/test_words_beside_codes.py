"""Documents that have a text and a code or a vector of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit import Collection
from hummingbit.encoder.codes import code_to_hex, pack_bits
from hummingbit.foundation.errors import InputError
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, UNIT
from hummingbit.index.rankings import quantize_weights
from tests.support.encoders import random_texts
from tests.support.oracles.brute_force_bm25 import BruteForceBm25
from tests.support.service import make_data_folder, running_service

N_BITS = 1536
RNG = np.random.default_rng(7)
VECTORS = RNG.normal(size=(60, N_BITS)).astype(np.float32)
CODES = [code_to_hex(code) for code in pack_bits(VECTORS > 0)]
TEXTS = random_texts(60, seed=7)
DOCUMENTS = [
    {"id": f"d{at}", "text": text, "code": code}
    for at, (text, code) in enumerate(zip(TEXTS, CODES, strict=True))
]
ORACLE = BruteForceBm25(list(enumerate(TEXTS)), ANALYZERS[DEFAULT_ANALYZER])
SIGNS = np.where(VECTORS > 0, 1, -1).astype(np.int64)


def standardized(scores: np.ndarray) -> np.ndarray:
    return np.asarray((scores - scores.mean()) / scores.std())


def in_order(scores: np.ndarray, k: int) -> list[str]:
    return [f"d{at}" for at in np.argsort(-scores.round(9), kind="stable")[:k]]


def by_words(text: str) -> np.ndarray:
    return np.array(ORACLE.hybrid_scores(text), dtype=np.float64) / UNIT


def by_vector(vector: np.ndarray) -> np.ndarray:
    return np.asarray(SIGNS @ quantize_weights(vector[None])[0][0], dtype=np.float64)


@pytest.fixture
def collection(tmp_path: Path) -> Any:
    with Collection.create(tmp_path, "brought", n_bits=N_BITS) as collection:
        collection.add(DOCUMENTS)
        yield collection


def test_words_codes_and_both_find_documents_that_bring_codes(collection: Collection) -> None:
    query, text = VECTORS[3] + 0.5 * VECTORS[9], TEXTS[9]
    words = collection.search(text, limit=5, highlight=True)
    assert words.ids[0] == "d9"
    assert words.distances.tolist() == [-1] * len(words.ids)
    passage = next(iter(words)).highlight
    assert passage is not None
    assert passage.marks
    found = collection.search(query, ranking="asymmetric", limit=20)
    assert found.ids == in_order(by_vector(query), 20)
    # A code alone says only which bits differ, so all weigh the same.
    distances = (np.where(query > 0, 1, -1) != SIGNS).sum(axis=1)
    code = code_to_hex(pack_bits(query[None] > 0)[0])
    assert collection.search(code=code, limit=20).ids == in_order(-distances.astype(float), 20)
    both = collection.search({"text": text, "vector": query}, limit=20)
    words_scores = by_words(text)
    # The text is a document's, so words count in full.
    expected = words_scores / 2 + 0.5 * standardized(by_vector(query))
    assert both.ids == in_order(expected, 20)
    assert both.scores == pytest.approx(np.sort(expected)[::-1][:20])
    coded = collection.search(text, code=code, limit=20, hybrid={"codes": 2.0})
    bits = np.where(query > 0, 1.0, -1.0)
    expected = words_scores / 2 + 2 * standardized(SIGNS @ bits)
    assert coded.ids == in_order(expected, 20)


def test_queries_of_all_kinds_are_one_batch(collection: Collection) -> None:
    queries = [
        TEXTS[4],
        VECTORS[5],
        {"text": TEXTS[6], "code": CODES[6]},
        {"text": TEXTS[7], "vector": VECTORS[7]},
    ]
    found = collection.search_many(queries, limit=3)
    assert [hits.ids[0] for hits in found] == ["d4", "d5", "d6", "d7"]
    alone = [collection.search(query, limit=3) for query in queries[1:]]
    assert [hits.ids for hits in found[1:]] == [hits.ids for hits in alone]


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("some words", {"ranking": "hamming"}, "ranking: is 'hamming', which needs a vector or"),
        ("some words", {"radius": 4}, "radius: needs a vector or a code"),
        ("some words", {"rescore": "logits"}, "rescore: by is 'logits', which needs a vector or"),
        (np.ones(8), {}, "has 8 numbers; the collection has codes of 1536 bits"),
        (VECTORS[0], {"rescore": "bm25"}, "needs a text"),
    ],
)
def test_what_a_query_lacks_is_said(
    collection: Collection, query: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        collection.search(query, **options)


def test_vectors_beside_codes_rescore(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "kept", n_bits=N_BITS, keep_vectors="int8") as collection:
        collection.add(
            [{**document, "vector": VECTORS[at]} for at, document in enumerate(DOCUMENTS)]
        )
        query = VECTORS[3] + VECTORS[9]
        rescore = {"by": "vectors", "oversample": 20}
        found = collection.search(query, rescore=rescore, limit=5)
        units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
        cosines = units @ query / np.linalg.norm(query)
        assert found.ids == in_order(cosines, 5)
        assert found.scores == pytest.approx(np.sort(cosines)[::-1][:5], abs=2e-3)
        stored = collection.get("d3")
        assert stored is not None
        assert (stored.text, stored.code) == (TEXTS[3], CODES[3])


def test_a_service_takes_and_finds_both(tmp_path: Path) -> None:
    with running_service(make_data_folder(tmp_path)) as client:
        path = "/v1/collections/brought"
        assert client.put(path, json={"n_bits": N_BITS}).status_code == 201
        some = {"documents": DOCUMENTS[:30]}
        assert client.put(f"{path}/documents", json=some).json()["upserted"] == 30
        lines = "".join(json.dumps(document) + "\n" for document in DOCUMENTS[30:])
        headers = {"content-type": "application/x-ndjson"}
        bulk = client.post(f"{path}/documents:bulk", content=lines, headers=headers)
        assert bulk.json()["written"] == 30, bulk.text
        stored = client.get(f"{path}/documents/d40").json()
        assert (stored["text"], stored["code"]) == (TEXTS[40], CODES[40])
        body = {"text": TEXTS[40], "limit": 2, "highlight": True, "with_text": True}
        words = client.post(f"{path}/search", json=body).json()
        assert (words["ranking"], words["hits"][0]["id"]) == ("bm25", "d40")
        assert words["hits"][0]["distance"] is None
        assert words["hits"][0]["highlight"]["marks"]
        vector = VECTORS[41].tolist()
        both = client.post(f"{path}/search", json={"text": TEXTS[41], "vector": vector}).json()
        assert (both["ranking"], both["hits"][0]["id"]) == ("hybrid", "d41")
        real = client.post(f"{path}/search", json={"vector": vector, "ranking": "asymmetric"})
        assert real.json()["hits"][0] == {"id": "d41", "distance": 0, "score": 1.0}
        refused = client.post(f"{path}/search", json={"vector": [1.0], "limit": 1})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/vector"
