from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from hummingbit.corpus.document import FIELDS, Document
from hummingbit.corpus.expiry import EXPIRY_FIELDS
from hummingbit.encoder.codes import Codes, code_from_hex, code_to_hex
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.names import HAMMING
from hummingbit.index.records import StoredPayload
from hummingbit.service.schemas.responses import EvaluateResponse, SearchResponse
from tests.support.codes import clustered_codes
from tests.support.encoders import random_texts, text_encoder
from tests.support.oracles.brute_force import BruteForceIndex
from tests.support.service import check_problem, make_data_folder, running_service, send

MakeCollection = Callable[..., str]


def expected_hits(
    codes: Codes, ids: Sequence[str], query: Codes, limit: int, radius: int | None = None
) -> list[tuple[str, int]]:
    index = BruteForceIndex(codes, np.arange(len(codes), dtype=np.int64))
    (found,) = index.search(query[None], limit, radius)
    return [(ids[row], int(d)) for row, d in zip(found.rows, found.distances, strict=True)]


def ok(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def hits_of(result: dict[str, Any]) -> list[tuple[str, int]]:
    return [(hit["id"], hit["distance"]) for hit in result["hits"]]


@pytest.mark.parametrize("n_bits", [16, 32, 64])
def test_codes_are_found_as_the_oracle_finds_them(
    client: httpx.Client, make_collection: MakeCollection, n_bits: int
) -> None:
    rng = np.random.default_rng(n_bits)
    codes = clustered_codes(rng, 600, n_bits)
    ids = [f"d{i}" for i in range(len(codes))]
    documents = [{"id": i, "code": code_to_hex(c)} for i, c in zip(ids, codes, strict=True)]
    path = make_collection(documents, n_bits=n_bits)
    searches: list[dict[str, Any]] = []
    expected = []
    for query in clustered_codes(rng, 60, n_bits):
        limit = int(rng.choice([1, 7, 100, 1000]))
        radius = None if rng.random() < 0.5 else int(rng.integers(0, n_bits // 2))
        searches.append({"code": code_to_hex(query), "limit": limit, "radius": radius})
        expected.append(expected_hits(codes, ids, query, limit, radius))
    single = [client.post(f"{path}/search", json=search).json() for search in searches]
    batch = client.post(f"{path}/search/batch", json={"searches": searches}).json()["results"]
    assert [hits_of(result) for result in single] == expected
    assert [hits_of(result) for result in batch] == expected


def test_texts_are_found_as_the_oracle_finds_them(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    texts, encoder = random_texts(200), text_encoder()
    documents = [{"id": f"t{i}", "text": text} for i, text in enumerate(texts)]
    path = make_collection(documents, encoder="words")
    codes, ids = encoder.encode(texts), [f"t{i}" for i in range(len(texts))]
    for text in random_texts(20, seed=1):
        body = {"text": text, "limit": 15, "ranking": "hamming"}
        result = client.post(f"{path}/search", json=body).json()
        assert hits_of(result) == expected_hits(codes, ids, encoder.encode([text])[0], 15)


def test_what_is_known_of_a_text_is_said(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    documents = [{"id": f"t{i}", "text": text} for i, text in enumerate(random_texts(20))]
    path = make_collection(documents, encoder="words")

    def search(**asked: Any) -> dict[str, Any]:
        answer: dict[str, Any] = client.post(f"{path}/search", json=asked).json()
        TypeAdapter(SearchResponse).validate_python(answer)
        return answer

    unknown, typo = search(text="zzqx blorp"), search(text="aple honey", with_code=True)
    assert (unknown["recognized_terms"], unknown["corrected"], unknown["hits"]) == (0, [], [])
    assert (typo["recognized_terms"], typo["corrected"]) == (2, [["aple", "apple"]])
    for ranking in ("hamming", "asymmetric", "bm25", "hybrid"):
        typed, meant = (
            search(text=text, ranking=ranking) for text in ("aple honey", "apple honey")
        )
        assert hits_of(typed) == hits_of(meant)
    assert "recognized_terms" not in search(id="t3")
    batch = client.post(f"{path}/search/batch", json={"searches": [{"text": "zzqx"}, {"id": "t1"}]})
    assert [len(result["hits"]) for result in batch.json()["results"]] == [0, 10]


def test_what_looks_like_a_condition_and_is_none_is_said(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    documents = [{"id": f"{i}", "text": text} for i, text in enumerate(random_texts(20))]
    path = f"{make_collection(documents, encoder='words')}/search"
    texts = ["apple colour:red", "apple -honey colour:red", "apple"]
    said = ["'colour:red' is searched for as words: no document has the field 'colour'"]
    for options in ({"limit": 3}, {"limit": 3, "filter": {"has_id": ["1"]}}):
        alone = [client.post(path, json={"text": text, **options}).json() for text in texts]
        assert [answer.get("warnings") for answer in alone] == [said, said, None]
    together = client.post(f"{path}/batch", json={"searches": [{"text": text} for text in texts]})
    assert [answer.get("warnings") for answer in together.json()["results"]] == [said, said, None]


def test_the_answer_to_a_search(client: httpx.Client, make_collection: MakeCollection) -> None:
    documents = [
        {"id": "a", "code": "00", "payload": {"title": "A", "nothing": None}},
        {"id": "b", "code": "01"},
        {"id": "c", "code": "ff", "labels": ["x", "y"]},
    ]
    path = make_collection(documents, n_bits=8)
    response = client.post(f"{path}/search", json={"code": "00", "with_payload": True})
    result = TypeAdapter(SearchResponse).validate_python(response.json())
    assert [hit["id"] for hit in result["hits"]] == ["a", "b", "c"]
    assert [hit["score"] for hit in result["hits"]] == [1, 0.875, 0]
    assert result["hits"][0]["payload"] == {"title": "A", "nothing": None}
    assert result["hits"][2]["payload"] == {"labels": ["x", "y"]}
    assert (result["n_bits"], result["encoder"], result["generation"]) == (8, None, 1)
    assert result["took_ms"] > 0
    plain = client.post(f"{path}/search", json={"code": "00", "radius": 1}).json()
    assert [set(hit) for hit in plain["hits"]] == [{"id", "distance", "score"}] * 2


def test_search_by_the_id_of_a_document(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([{"id": "a", "code": "00"}, {"id": "b", "code": "03"}], n_bits=8)
    found = client.post(f"{path}/search", json={"id": "b"}).json()
    assert hits_of(found) == [("b", 0), ("a", 2)]
    for unknown in ("c", "", "\0", "\ud800"):
        response = send(client, "POST", f"{path}/search", {"id": unknown})
        check_problem(response, 404, "unknown_document")


def test_an_empty_collection_finds_nothing(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(encoder="words")
    result = client.post(f"{path}/search", json={"text": "apple"}).json()
    assert result["hits"] == []
    assert result["encoder"]["name"] == "words"


def test_encode_texts_and_vectors(client: httpx.Client, make_collection: MakeCollection) -> None:
    path, texts = make_collection(encoder="words"), random_texts(5)
    inputs = [{"text": text} for text in texts]
    result = client.post(f"{path}/encode", json={"inputs": inputs}).json()
    assert result["codes"] == [code_to_hex(code) for code in text_encoder().encode(texts)]
    assert result["n_bits"] == 32
    numbers = make_collection(encoder="numbers")
    result = client.post(f"{numbers}/encode", json={"inputs": [{"vector": [1] * 6}]}).json()
    assert len(code_from_hex(result["codes"][0], 16)) == 2
    brought = make_collection(n_bits=8)
    response = client.post(f"{brought}/encode", json={"inputs": [{"text": "a"}]})
    check_problem(response, 422, "invalid_request")


def test_evaluate_as_the_library_does(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    rng = np.random.default_rng(3)
    codes, labels = clustered_codes(rng, 300, 16), rng.choice(["x", "y", "z"], 300).tolist()
    queries, wanted = clustered_codes(rng, 40, 16), rng.choice(["x", "y"], 40).tolist()
    documents = [
        {"id": str(i), "code": code_to_hex(code), "payload": {"topic": label}}
        for i, (code, label) in enumerate(zip(codes, labels, strict=True))
    ]
    path = make_collection(documents, n_bits=16)
    body = {
        "queries": [
            {"code": code_to_hex(code), "label": label}
            for code, label in zip(queries, wanted, strict=True)
        ],
        "metrics": ["P@10", "mAP@50"],
        "label_field": "topic",
    }
    response = client.post(f"{path}/evaluate", json=body).json()
    result = TypeAdapter(EvaluateResponse).validate_python(response)
    expected = evaluate_codes(
        queries,
        [(item,) for item in wanted],
        codes,
        [(item,) for item in labels],
        ["P@10", "mAP@50"],
    )
    assert result["metrics"] == pytest.approx(expected.metrics)
    assert result["expected"] == pytest.approx(expected.expected)
    assert (result["queries"], result["documents"]) == (40, 300)


def test_what_cannot_be_evaluated(client: httpx.Client, make_collection: MakeCollection) -> None:
    empty = make_collection(n_bits=8)
    labelled = make_collection([{"id": "a", "code": "00", "label": "x"}], n_bits=8)
    mixed = make_collection([{"id": "a", "code": "00", "payload": {"label": {"of": 1}}}], n_bits=8)
    query = {"code": "00", "label": "x"}
    response = client.post(f"{empty}/evaluate", json={"queries": [query]})
    check_problem(response, 422, "cannot_evaluate")
    response = send(
        client, "POST", f"{labelled}/evaluate", {"queries": [query], "label_field": "\ud800"}
    )
    problem = check_problem(response, 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/label_field"
    for body, pointer in (
        ({"queries": [query, {"code": "00"}]}, "/queries/1"),
        ({"queries": [query, {"code": "0", "label": "x"}]}, "/queries/1/code"),
        ({"queries": [query], "metrics": ["P@0"]}, "/metrics"),
        ({"queries": [query], "metrics": []}, "/metrics"),
        ({"queries": []}, "/queries"),
    ):
        problem = check_problem(
            client.post(f"{labelled}/evaluate", json=body), 422, "invalid_request"
        )
        assert problem["errors"][0]["pointer"] == pointer
    response = client.post(f"{mixed}/evaluate", json={"queries": [query]})
    problem = check_problem(response, 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/label_field"


def test_searches_during_writes_see_whole_generations(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection(n_bits=8)

    def write(turn: int) -> int:
        documents = [{"id": f"{turn}-{i}", "code": "0f"} for i in range(5)]
        response = client.put(f"{path}/documents", json={"documents": documents})
        return int(response.json()["generation"])

    def search(_: int) -> tuple[int, list[str]]:
        body = {"searches": [{"code": "0f", "limit": 500}, {"code": "f0", "limit": 200}]}
        one, other = client.post(f"{path}/search/batch", json=body).json()["results"]
        assert one["generation"] == other["generation"]
        assert [hit["id"] for hit in one["hits"]] == [hit["id"] for hit in other["hits"]]
        return one["generation"], [hit["id"] for hit in one["hits"]]

    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write, turn) for turn in range(30)]
        found = [future.result() for future in [pool.submit(search, i) for i in range(60)]]
    assert sorted(write.result() for write in writes) == list(range(1, 31))
    longest = max(found)[1]
    for generation, ids in found:
        assert len(ids) == 5 * generation
        assert ids == longest[: len(ids)]


def test_a_document_is_what_the_corpus_calls_one() -> None:
    """The names that a document has here are those it has everywhere."""
    from hummingbit.service.schemas.collections import NewDocument  # noqa: PLC0415

    assert set(NewDocument.model_fields) == {*FIELDS, *EXPIRY_FIELDS}


def asked(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = send(client, "POST", f"{path}/search", body).raise_for_status().json()
    return answer


@pytest.fixture(scope="module")
def numbered(make_collection: MakeCollection) -> str:
    documents = [
        {"id": f"d{at}", "code": f"{at % 7:04x}", "payload": {"at": at, "even": at % 2 == 0}}
        for at in range(60)
    ]
    return make_collection(documents, n_bits=16)


def test_a_filter_is_pushed_down_and_the_answer_says_what_searched(
    client: httpx.Client, numbered: str
) -> None:
    few = {"field": "at", "in": [3, 33, 53]}
    answer = asked(client, numbered, code="0000", limit=3, filter=few, with_payload=True)
    assert {hit["payload"]["at"] for hit in answer["hits"]} == {3, 33, 53}
    assert answer["engine"]
    assert answer["ties_cut"] is False
    assert asked(client, numbered, code="0000", limit=2)["ties_cut"] is True
    both = {"searches": [{"code": "0000"}, {"code": "0001", "limit": 1}], "filter": few}
    results = send(client, "POST", f"{numbered}/search/batch", both).json()["results"]
    assert [len(result["hits"]) for result in results] == [3, 1]
    assert "warnings" not in asked(client, numbered, code="0000", filter={**few, "in": [-1]})
    wrong = {"field": "at", "eq": "3"}
    reason = "filter: 'at' holds numbers; \"3\" finds strings only"
    assert asked(client, numbered, code="0000", filter=wrong)["warnings"] == [reason]
    results = send(client, "POST", f"{numbered}/search/batch", {**both, "filter": wrong}).json()
    assert [result["warnings"] for result in results["results"]] == [[reason], [reason]]
    problem = check_problem(
        send(client, "POST", f"{numbered}/search", {"code": "0000", "filter": {"at": 1}}),
        422,
        "invalid_request",
    )
    assert problem["errors"][0]["pointer"] == "/filter"


def test_pages_by_offset_and_by_cursor_are_the_whole_list(
    client: httpx.Client, numbered: str
) -> None:
    whole = [hit["id"] for hit in asked(client, numbered, code="0003", limit=60)["hits"]]
    assert len(whole) == 60
    pages = [
        hit["id"]
        for offset in range(0, 60, 7)
        for hit in asked(client, numbered, code="0003", limit=7, offset=offset)["hits"]
    ]
    assert pages == whole
    answer = asked(client, numbered, code="0003", limit=7, with_cursor=True)
    scrolled = [hit["id"] for hit in answer["hits"]]
    while answer["next_cursor"] is not None:
        answer = asked(client, numbered, code="0003", limit=7, cursor=answer["next_cursor"])
        scrolled += [hit["id"] for hit in answer["hits"]]
    assert scrolled == whole
    other = send(client, "POST", f"{numbered}/search", {"code": "0003", "cursor": "AAAA"})
    assert check_problem(other, 422, "invalid_request")["errors"][0]["pointer"] == "/cursor"


def test_codes_and_differing_bits_belong_together(client: httpx.Client, numbered: str) -> None:
    answer = asked(client, numbered, code="0003", limit=60, with_code=True, explain=True)
    assert answer["query_code"] == "0003"
    for hit in answer["hits"]:
        different = int(hit["code"], 16) ^ 3
        assert hit["differing_bits"] == [at for at in range(16) if different >> (15 - at) & 1]
        assert len(hit["differing_bits"]) == hit["distance"]
    assert "query_terms" not in answer


def test_hits_are_re_ranked_and_terms_explained(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    texts = random_texts(40, seed=5)
    documents = [{"id": f"d{at}", "text": text} for at, text in enumerate(texts)]
    path = make_collection(documents, encoder="words")
    plain = asked(client, path, text=texts[0], limit=10, ranking="hamming")
    ranked = asked(client, path, text=texts[0], limit=10, rerank=True, explain=True)
    assert {hit["id"] for hit in ranked["hits"]} == {hit["id"] for hit in plain["hits"]}
    scores = [hit["rerank_score"] for hit in ranked["hits"]]
    assert scores == sorted(scores)
    assert ranked["reranked"] is True
    assert {term["term"] for term in ranked["query_terms"]} == set(texts[0].split())
    response = send(client, "POST", f"{path}/search", {"id": "d0", "rerank": True})
    check_problem(response, 422, "invalid_request")


def test_hits_are_ranked_by_what_the_query_knows(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    texts = random_texts(80, seed=9)
    documents = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    path = make_collection(documents, encoder="words")
    query = {"text": "apple vector garlic", "limit": 20}
    plain = ok(client.post(f"{path}/search", json={**query, "ranking": "hamming"}))
    found = ok(client.post(f"{path}/search", json={**query, "ranking": "asymmetric"}))
    assert (plain["ranking"], found["ranking"]) == ("hamming", "asymmetric")
    scores = [hit["score"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert [hit["id"] for hit in found["hits"]] != [hit["id"] for hit in plain["hits"]]
    filtered = {**query, "ranking": "asymmetric", "filter": {"field": "nothing", "exists": True}}
    assert ok(client.post(f"{path}/search", json=filtered))["hits"] == []
    searches = [{**query, "with_text": True}, {"id": "d3", "limit": 5}]
    batch = {"searches": searches, "ranking": "asymmetric"}
    first, second = ok(client.post(f"{path}/search/batch", json=batch))["results"]
    assert [hit["id"] for hit in first["hits"]] == [hit["id"] for hit in found["hits"]]
    assert [hit["text"] for hit in first["hits"]] == [
        texts[int(h["id"][1:])] for h in first["hits"]
    ]
    assert "text" not in second["hits"][0]
    pages: list[str] = []
    cursor = None
    while len(pages) < 20:
        body = {**query, "limit": 7, "ranking": "asymmetric", "with_cursor": True}
        page = ok(client.post(f"{path}/search", json=body | ({"cursor": cursor} if cursor else {})))
        pages += [hit["id"] for hit in page["hits"]]
        cursor = page["next_cursor"]
    assert pages[:20] == [hit["id"] for hit in found["hits"]]


def test_a_collection_has_a_ranking_of_its_own(
    client: httpx.Client, make_collection: Callable[..., str]
) -> None:
    documents = [{"id": f"d{i}", "text": text} for i, text in enumerate(random_texts(30, seed=8))]
    path = make_collection(documents, encoder="words")
    assert ok(client.get(path))["ranking"] == "hybrid"
    changed = ok(client.patch(path, json={"ranking": "asymmetric"}))
    assert changed["ranking"] == ok(client.get(f"{path}/stats"))["ranking"] == "asymmetric"
    by_text, by_id, radius = (
        ok(client.post(f"{path}/search", json=body))["ranking"]
        for body in ({"text": "jam"}, {"id": "d1"}, {"text": "jam", "radius": 9})
    )
    assert (by_text, by_id, radius) == ("asymmetric", "hamming", "hamming")
    mixed = [{"text": "jam"}, {"id": "d1"}]
    results = ok(client.post(f"{path}/search/batch", json={"searches": mixed}))["results"]
    assert [result["ranking"] for result in results] == ["asymmetric", "hamming"]
    searches: list[dict[str, Any]] = [{"text": "jam"}, {"text": "jam", "radius": 3}]
    results = ok(client.post(f"{path}/search/batch", json={"searches": searches}))["results"]
    assert [result["ranking"] for result in results] == ["hamming", "hamming"]


@pytest.mark.parametrize(
    ("request_of", "body", "pointer", "message"),
    [
        ("POST /search", {"text": "a", "ranking": "cosine"}, "/ranking", "must be one of hamm"),
        (
            "POST /search",
            {"text": "a", "ranking": "asymmetric", "radius": 2},
            "/radius",
            "the ranking 'asymmetric' has no radius",
        ),
        (
            "POST /search/batch",
            {"searches": [{"text": "a"}, {"text": "a", "radius": 2}], "ranking": "asymmetric"},
            "/searches/1/radius",
            "only the ranking 'hamming' takes one",
        ),
        ("PATCH ", {"ranking": "x"}, "/ranking", "must be one of hamming"),
        ("PATCH ", {}, "", "is empty; it must have ranking"),
    ],
)
def test_a_ranking_that_cannot_be_is_pointed_to(  # noqa: PLR0917 - the cases above
    client: httpx.Client,
    make_collection: Callable[..., str],
    request_of: str,
    body: dict[str, Any],
    pointer: str,
    message: str,
) -> None:
    where = make_collection(encoder="words")
    method, _, path = request_of.partition(" ")
    response = client.request(method, f"{where}{path}", json=body)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == pointer
    assert message in error["message"]


def test_the_first_search_by_words_builds_their_index_beside_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is built, the event loop and the threads of plain searches answer others."""
    texts, path = random_texts(30), "/v1/collections/c"
    with DataFolder(make_data_folder(tmp_path), writable=True) as folder:
        collection = folder.create_collection("c", encoder="words")
        collection.upsert(Document(f"d{n}", text) for n, text in enumerate(texts))
        collection.set_ranking(HAMMING)
    begun, go_on, build = threading.Event(), threading.Event(), LexicalIndex.build
    threads: list[str] = []

    def build_later(*given: Any, **options: Any) -> LexicalIndex:
        threads.append(threading.current_thread().name)
        begun.set()
        assert go_on.wait(120)
        return build(*given, **options)

    monkeypatch.setattr(LexicalIndex, "build", build_later)
    plain, worded = {"text": texts[0]}, {"text": texts[0], "ranking": "bm25"}
    with running_service(tmp_path) as client, ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            ok(client.post(f"{path}/search", json=plain))
        client.patch(path, json={"ranking": "hybrid"}).raise_for_status()
        asked = [plain, worded, worded | {"highlight": True}, plain, worded, plain]
        waiting = [pool.submit(client.post, f"{path}/search", json=body) for body in asked]
        assert begun.wait(120)
        hamming = {"text": texts[0], "ranking": "hamming"}
        for _ in range(5):
            ok(client.post(f"{path}/search", json=hamming))
        assert not any(item.done() for item in waiting)
        go_on.set()
        found = [ok(item.result()) for item in waiting]
    assert [item["ranking"] for item in found] == [
        *("hybrid", "bm25", "bm25", "hybrid", "bm25", "hybrid")
    ]
    (thread,) = threads
    assert thread != "MainThread"
    assert not thread.startswith("search")


def test_long_payloads_are_sent_as_they_are_stored(
    client: httpx.Client, make_collection: MakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not parsed and written again, which would hold the interpreter for long."""
    payloads = [
        {"large": 2**80, "text": 'é "quoted" \\ \U0001f426', "none": None, "list": [1, {"a": []}]},
        {f"key {n}": n / 7 for n in range(20_000)},
        {"long": "x" * 300_000},
    ]
    documents = [
        {"id": f"d{n}", "code": "0f0f", "payload": payload} for n, payload in enumerate(payloads)
    ]
    path = make_collection(documents, n_bits=16)
    parsed: list[int] = []

    def parse(payload: StoredPayload) -> dict[str, Any]:
        parsed.append(len(payload.json))
        return {}

    monkeypatch.setattr(StoredPayload, "_fields", property(parse))
    search = {"code": "0f0f", "with_payload": True}
    searched = [ok(client.post(f"{path}/search", json=search)) for _ in range(3)]
    searched.append(ok(client.post(f"{path}/search", json=search | {"limit": 500})))
    batch = ok(client.post(f"{path}/search/batch", json={"searches": [search] * 2}))
    for result in [*searched, *batch["results"]]:
        assert [hit["payload"] for hit in result["hits"]] == payloads
    got = [ok(client.get(f"{path}/documents/d{n}")) for n in range(3)]
    scrolled = ok(client.post(f"{path}/documents:scroll", json={}))["documents"]
    listed = ok(client.post(f"{path}/documents:get", json={"ids": ["d0", "d1", "d2"]}))
    assert [document["payload"] for document in got] == payloads
    assert got == scrolled == listed["documents"]
    assert not parsed


def test_a_payload_of_very_many_values_is_refused(
    client: httpx.Client, make_collection: MakeCollection
) -> None:
    path = make_collection([{"id": "a", "code": "0f0f"}], n_bits=16)
    payload = {"many": [[n] for n in range(50_000)]}
    document = {"id": "b", "code": "0f0f", "payload": payload}
    refused = client.put(f"{path}/documents", json={"documents": [document]})
    problem = check_problem(refused, 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/documents/0/payload"
    assert "has 100,002 keys, entries and values; at most 100,000" in problem["detail"]
    line = (json.dumps(document) + "\n").encode()
    headers = {"content-type": "application/x-ndjson"}
    answer = ok(client.post(f"{path}/documents:bulk", content=line, headers=headers))
    assert answer["errors"][0]["code"] == "invalid_request", answer
    assert ok(client.get(path))["documents"] == 1
