"""The confidence of hits, and searches with a threshold of it, under every ranking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit import Collection, SemanticHasher
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.facets import Facet
from hummingbit.index.filters import parse_filter
from hummingbit.index.options import Rescore
from hummingbit.index.passages import Passages
from hummingbit.index.records import Query
from hummingbit.index.search import Hit
from tests.support.encoders import random_texts
from tests.support.service import make_data_folder, running_service

N = 150
TEXTS = random_texts(N, seed=1)
QUERIES = [*random_texts(6, seed=2), TEXTS[3], "xyzzy qwerty"]
ORDERS: dict[str, dict[str, Any]] = {
    "hamming": {"ranking": "hamming"},
    "radius": {"ranking": "hamming", "radius": 12},
    "asymmetric": {"ranking": "asymmetric"},
    "bm25": {"ranking": "bm25"},
    "hybrid": {"ranking": "hybrid"},
    "hamming+bm25": {"ranking": "hamming", "rescore": Rescore("bm25")},
    "bm25+logits": {"ranking": "bm25", "rescore": Rescore("logits", 100)},
}
WITH_CURSORS = ("hamming", "radius", "asymmetric", "bm25", "hybrid")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFolder]:
    path = make_data_folder(tmp_path_factory.mktemp("data"))
    with DataFolder(path, writable=True) as folder:
        for name, passages in (("plain", None), ("split", True)):
            collection = folder.create_collection(
                name, encoder="words", passages=Passages.of(passages)
            )
            payloads: list[dict[str, Any]] = [{"group": f"g{i % 7}"} for i in range(N)]
            collection.upsert([Document(f"d{i}", TEXTS[i], payload=payloads[i]) for i in range(N)])
            collection.set_ranking("hybrid")
        yield folder


def confidences(hits: list[Hit]) -> list[float]:
    values = [hit.confidence for hit in hits if hit.confidence is not None]
    assert len(values) == len(hits)
    return values


def search(collection: CollectionBackend, text: str, k: int, **options: Any) -> list[Hit]:
    return collection.search([Query(text=text)], k, **options).hits[0]


@pytest.mark.parametrize("name", ["plain", "split"])
@pytest.mark.parametrize("order", ORDERS)
def test_confidence_is_a_probability_in_the_order_of_the_scores(
    folder: DataFolder, order: str, name: str
) -> None:
    collection = folder.collection(name)
    for text in QUERIES:
        hits = search(collection, text, N, with_confidence=True, **ORDERS[order])
        values = confidences(hits)
        assert all(0 <= value <= 1 for value in values)
        assert values == sorted(values, reverse=True)
        plain = search(collection, text, N, **ORDERS[order])
        assert [hit._replace(confidence=None) for hit in hits] == plain


@settings(max_examples=60, deadline=None)
@given(
    order=st.sampled_from([*ORDERS]),
    name=st.sampled_from(["plain", "split"]),
    text=st.sampled_from(QUERIES),
    share=st.floats(0, 1),
    k=st.integers(1, 40),
    offset=st.integers(0, 10),
    filtered=st.booleans(),
)
def test_a_threshold_keeps_the_hits_of_that_confidence(
    folder: DataFolder,
    *,
    order: str,
    name: str,
    text: str,
    share: float,
    k: int,
    offset: int,
    filtered: bool,
) -> None:
    collection = folder.collection(name)
    options = dict(ORDERS[order])
    if filtered:
        options["filter"] = parse_filter({"field": "group", "in": ["g1", "g2", "g5"]})
    rescored = "rescore" in options
    if rescored:
        options["offset"] = offset  # how many are rescored depends on it
    whole = search(collection, text, k if rescored else N, with_confidence=True, **options)
    values = [0.0, *confidences(whole), 1.0]
    least = values[round(share * (len(values) - 1))]
    found = search(collection, text, k, **{**options, "offset": offset, "score_threshold": least})
    kept = [hit for hit, value in zip(whole, confidences(whole), strict=True) if value >= least]
    assert found == (kept if rescored else kept[offset : offset + k])


@pytest.mark.parametrize("order", WITH_CURSORS)
@pytest.mark.parametrize("name", ["plain", "split"])
def test_pages_end_at_the_threshold(folder: DataFolder, order: str, name: str) -> None:
    collection = folder.collection(name)
    for text in QUERIES[:3]:
        query, options = [Query(text=text)], ORDERS[order]
        values = confidences(search(collection, text, N, with_confidence=True, **options))
        least = values[min(30, len(values) - 1)]
        expected = search(collection, text, N, score_threshold=least, **options)
        hits, cursor = [], None
        while True:
            page = collection.search(
                query, 7, score_threshold=least, with_cursor=True, cursor=cursor, **options
            )
            hits += page.hits[0]
            (cursor,) = page.next_cursors
            if cursor is None:
                break
            with pytest.raises(InputError, match="cursor"):
                collection.search(query, 7, cursor=cursor, **options)
        assert hits == expected
        assert len(hits) > 7


@pytest.mark.parametrize("order", ["hamming", "asymmetric", "bm25", "hybrid"])
def test_groups_facets_and_copies_are_of_hits_above_the_threshold(
    folder: DataFolder, order: str
) -> None:
    collection, options = folder.collection("plain"), ORDERS[order]
    whole = search(collection, TEXTS[3], N, with_confidence=True, with_payload=True, **options)
    least = confidences(whole)[min(20, len(whole) - 1)]
    kept = [hit for hit, value in zip(whole, confidences(whole), strict=True) if value >= least]
    groups: dict[str, list[str]] = {}
    for hit in kept:
        groups.setdefault((hit.payload or {})["group"], []).append(hit.id)
    found = collection.search(
        [Query(text=TEXTS[3])],
        10,
        group_by="group",
        group_size=100,
        facets=(Facet("group"),),
        score_threshold=least,
        **options,
    )
    assert found.groups is not None
    assert {
        document.id: [hit.id for hit in document.hits] for document in found.groups[0]
    } == groups
    assert found.facets is not None
    counts = {bucket["value"]: bucket["count"] for bucket in found.facets[0][0].buckets}
    assert counts == {group: len(ids) for group, ids in groups.items()}
    apart = search(collection, TEXTS[3], N, collapse_duplicates=4, **options)
    ids = [hit.id for hit in kept]
    some = search(collection, TEXTS[3], N, collapse_duplicates=4, score_threshold=least, **options)
    assert [hit.id for hit in some] == [hit.id for hit in apart if hit.id in ids]


@pytest.mark.parametrize("order", ["bm25", "hybrid"])
def test_words_that_no_document_has_lower_the_confidence(folder: DataFolder, order: str) -> None:
    collection, options = folder.collection("plain"), ORDERS[order]
    for text in TEXTS[:10]:
        known = search(collection, text, 1, with_confidence=True, **options)
        words = f"{text} zzzxq wvvkj qqxjz"
        partly = search(collection, words, 1, with_confidence=True, **options)
        assert confidences(partly)[0] < confidences(known)[0]
    nonsense = search(collection, "zzzxq wvvkj", 1, with_confidence=True, **options)
    assert all(value < 0.2 for value in confidences(nonsense))


def test_codes_and_vectors_have_a_confidence_and_recommendations_none(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(vectors)
    with Collection.create(tmp_path, "vectors", encoder=hasher) as collection:
        collection.add(vectors)
        for options in ({}, {"ranking": "asymmetric"}, {"rescore": "vectors"}):
            hits = collection.search(vectors[3], limit=80, **options)  # type: ignore[arg-type]
            values = hits.confidences
            assert (np.diff(values) <= 0).all()
            assert values[0] > 0.5 > values[40]
            least = float(values[5])
            some = collection.search(vectors[3], limit=80, score_threshold=least, **options)  # type: ignore[arg-type]
            assert some.ids == [
                id_ for id_, value in zip(hits.ids, values, strict=True) if value >= least
            ]
        assert np.isnan(collection.recommend(["0"]).confidences).all()
        with pytest.raises(TypeError, match="score_threshold"):
            collection.recommend(["0"], score_threshold=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("least", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(folder: DataFolder, least: float) -> None:
    with pytest.raises(InputError, match="score_threshold"):
        search(folder.collection("plain"), TEXTS[0], 1, score_threshold=least)


def test_services_and_commands_have_confidence_and_threshold(
    folder: DataFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collection = folder.collection("plain")
    whole = search(collection, TEXTS[3], 20, with_confidence=True)
    least = confidences(whole)[4]
    kept = [(hit.id, hit.confidence) for hit in whole if (hit.confidence or 0) >= least]
    with running_service(folder) as client:
        url = "/v1/collections/plain/search"

        def post(url: str, **body: Any) -> Any:
            answer = client.post(url, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert "confidence" not in post(url, text=TEXTS[3])["hits"][0]
        hits = post(url, text=TEXTS[3], limit=20, score_threshold=least)["hits"]
        assert [(hit["id"], hit["confidence"]) for hit in hits] == kept
        hits = post(url, text=TEXTS[3], limit=20, with_confidence=True)["hits"]
        assert [hit["confidence"] for hit in hits] == confidences(whole)
        batch = {"searches": [{"text": TEXTS[3], "limit": 20}, {"text": TEXTS[4]}]}
        first, _ = post(f"{url}/batch", **batch, score_threshold=least)["results"]
        assert [(hit["id"], hit["confidence"]) for hit in first["hits"]] == kept
        refused = client.post(url, json={"text": "a", "score_threshold": 2})
        assert refused.status_code == 422
        assert "score_threshold" in refused.text
        arguments = ["search", "plain", TEXTS[3], "--limit", "20", "--url", str(client.base_url)]
        assert main([*arguments, "--score-threshold", str(least), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert [(hit["id"], hit["confidence"]) for hit in answer["hits"]] == kept
        assert main(arguments) == 0
        assert f"{confidences(whole)[0]:4.0%}" in capsys.readouterr().out
