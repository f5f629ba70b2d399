"""What users try in their first week, each as the script that they would write."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image, ImageDraw

from hummingbit import Client, Collection, SemanticHasher
from hummingbit.cli import main
from hummingbit.clients.requests import ServiceError
from tests.support.service import service_with_keys

# A parish's letters, with what people keep beside a text.
LETTERS = [
    ("roof-1", "The roof of the chapel leaks on the organ", "repairs", 2019, "2019-11-03T08:30Z"),
    ("roof-2", "The chapel's roof leaks on the organ", "repairs", 2020, "2020-02-01T10:00+02:00"),
    ("roof-3", "A roofer will mend the chapel before the winter", "repairs", 2021, "2021-09-14"),
    ("bell-1", "The great bell is cracked and may not be rung", "repairs", 2021, "2021-10-02"),
    ("choir-1", "The choir sings Bach on Good Friday", "music", 2019, "2019-04-19"),
    ("choir-2", "Tenors are wanted for the choir on Tuesday", "music", 2020, "2020-09-01"),
    ("organ-1", "An organ recital of Bach and Buxtehude", "music", 2021, "2021-06-20T19:00Z"),
    ("organ-2", "The organ is tuned on Monday morning", "music", 2022, "2022-01-10"),
    ("fair-1", "Cakes and jam for the summer fair, please", "events", 2019, "2019-06-01"),
    ("fair-2", "The summer fair raised pounds for the roof", "events", 2020, "2020-07-05"),
    ("walk-1", "A walk along the river with tea in the garden", "events", 2022, "2022-05-08"),
    ("walk-2", "The river walk is moved because of the flood", "events", 2022, None),
]  # fmt: skip
DRAFTS = {id_ for id_, *_ in LETTERS[::4]}
OTHERS = ["music", "events"]


def letters() -> list[dict[str, Any]]:
    return [
        {
            "id": id_,
            "text": text,
            "label": label,
            "payload": {
                "year": year,
                "sent": sent,
                "from": {"name": ["Ann", "Ben", "Cy"][at % 3]},
                "tenant": ["north", "south"][at % 2],
            }
            | ({"draft": True} if at % 4 == 0 else {}),
        }
        for at, (id_, text, label, year, sent) in enumerate(LETTERS)
    ]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """Serve the letters, asking for a key."""
    data = tmp_path_factory.mktemp("parish")
    hasher = SemanticHasher(n_bits=64, method="lsh").fit([text for _, text, *_ in LETTERS] * 5)
    hasher.save(data / "encoders" / "letters-64")
    with service_with_keys(data, workers=0) as (url, key), Client(url, key) as client:
        yield client, data


@pytest.fixture
def client(service: tuple[Client, Path], request: pytest.FixtureRequest) -> Iterator[Client]:
    """A collection of the letters, anew for each test."""
    client, _ = service
    client.create_collection("letters", encoder="letters-64")
    client.upsert("letters", letters())
    yield client
    client.delete_collection("letters")


def post(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request as ``curl`` would."""
    headers = {"authorization": client._http.headers["authorization"]}
    # Another connection than that of the writes may reach the other worker.
    headers["min-generation"] = str(client.collection("letters")["generation"])
    url = f"{client.url}/v1/collections/letters/{path}"
    answer = httpx.post(url, json=body, headers=headers, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ids(answer: Any) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def test_diverse_hits_over_rest(client: Client) -> None:
    query: dict[str, Any] = {"text": "the roof of the chapel leaks on the organ", "limit": 3}
    plain = ids(post(client, "search", query))
    assert plain[:2] == ["roof-1", "roof-2"]  # which say the same

    diverse = ids(post(client, "search", query | {"diversity": 0.7}))

    assert diverse[0] == "roof-1"
    assert "roof-2" not in diverse
    assert ids(post(client, "search", query | {"diversity": 0})) == plain
    similar = post(client, "recommend", {"positive": ["roof-1"], "limit": 3, "diversity": 0.7})
    assert similar["hits"][0]["id"] == "roof-2"
    assert ids(client.search("letters", query["text"], limit=3, diversity=0.7)) == diverse


def test_recommend_by_ids_texts_codes_and_vectors(client: Client) -> None:
    liked, disliked = "organ-1", "choir-2"
    by_ids = post(client, "recommend", {"positive": [liked], "negative": [disliked], "limit": 4})
    assert not {liked, disliked} & {*ids(by_ids)}

    code = client.get("letters", liked)["code"]
    by_code = post(
        client,
        "recommend",
        {"positive": [{"code": code}], "negative": [{"id": disliked}], "limit": 5},
    )
    # An example that is no stored document leaves this document among the hits.
    assert ids(by_code)[0] == liked
    assert [id_ for id_ in ids(by_code) if id_ != liked] == ids(by_ids)

    text = {"text": "An organ recital of Bach and Buxtehude"}
    by_text = post(client, "recommend", {"positive": [text], "negative": [disliked], "limit": 5})
    assert ids(by_text)[0] == liked

    best = {"positive": [liked, "bell-1"], "strategy": "best_score", "limit": 10}
    assert len(ids(post(client, "recommend", best))) == 10
    of_music = {"positive": [liked], "filter": {"field": "label", "eq": "music"}}
    assert {*ids(post(client, "recommend", of_music))} == {"choir-1", "choir-2", "organ-2"}
    with pytest.raises(ServiceError, match="has no document 'organ-9'"):
        client.recommend("letters", ["organ-9"])


def test_recommend_by_vectors(service: tuple[Client, Path]) -> None:
    client, _ = service
    client.create_collection("notes", encoder="sign", dimensions=16)
    vectors = np.random.default_rng(8).normal(size=(30, 16))
    client.upsert(
        "notes", [{"id": f"n{at}", "vector": vector.tolist()} for at, vector in enumerate(vectors)]
    )
    found = client.recommend("notes", [{"vector": vectors[4].tolist()}], ["n9"], limit=3)
    signs = np.sign(vectors)
    scores = signs @ (2 * signs[4] - signs[9])
    expected = [f"n{at}" for at in np.argsort(-scores, kind="stable") if at != 9]
    assert ids(found) == expected[:3]
    client.delete_collection("notes")


def test_payloads_change_by_id_and_by_filter(client: Client) -> None:
    before = client.get("letters", "bell-1")
    generation = client.collection("letters")["generation"]
    changed = client.update_payload("letters", ids=["bell-1"], set={"done": True})
    assert changed["updated"] == 1
    client.update_payload(
        "letters",
        filter={"field": "label", "eq": "repairs"},
        merge={"from": {"phone": "01", "name": None}},
    )
    client.update_payload("letters", filter={"field": "draft", "eq": True}, remove=["draft"])

    after = client.get("letters", "bell-1")
    assert (after["text"], after["code"]) == (before["text"], before["code"])
    assert after["payload"]["from"] == {"phone": "01"}
    assert after["payload"]["done"] is True
    assert client.count("letters", {"field": "draft", "exists": True}) == 0
    with pytest.raises(ServiceError) as stale:
        client.update_payload("letters", ids=["bell-1"], set={"x": 1}, if_generation=generation)
    assert stale.value.status == 412


def test_facets_groups_and_sorted_listings(client: Client) -> None:
    counts = client.facets("letters", ["label", {"field": "year", "interval": 2}])["facets"]
    by_label = {bucket["value"]: bucket["count"] for bucket in counts[0]["buckets"]}
    assert by_label == {"repairs": 4, "music": 4, "events": 4}
    assert sum(bucket["count"] for bucket in counts[1]["buckets"]) == len(LETTERS)

    found = client.search(
        "letters", "the organ and the roof", group_by="label", group_size=2, facets=["year"]
    )
    assert len(found["groups"]) <= 3
    assert all(1 <= len(group["hits"]) <= 2 for group in found["groups"])
    assert found["facets"][0]["field"] == "year"
    assert found["facets_over"] == "words"
    (years,) = client.search("letters", "river", limit=1, facets=["year"])["facets"]
    with_word = sum("river" in document["text"] for document in letters())
    assert 0 < years["documents"] + years["missing"] == with_word < len(LETTERS)

    page = client.scroll("letters", sort=["year:desc", "from.name"], with_payload=["year"], limit=5)
    rows = sorted(
        letters(),
        key=lambda document: (-document["payload"]["year"], document["payload"]["from"]["name"]),
    )
    assert [document["id"] for document in page["documents"]] == [row["id"] for row in rows[:5]]
    assert page["documents"][0]["payload"] == {"year": 2022}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"field": "text", "exists": False}, {id_ for id_, *_ in LETTERS}),
        ({"field": "from.name", "prefix": "A"}, {"roof-1", "bell-1", "organ-1", "fair-2"}),
        ({"field": "label", "contains": "usi"}, {"choir-1", "choir-2", "organ-1", "organ-2"}),
        ({"field": "sent", "is_null": True}, {"walk-2"}),
        ({"field": "draft", "is_missing": True}, {id_ for id_, *_ in LETTERS} - DRAFTS),
        ({"has_id": ["bell-1", "unknown"]}, {"bell-1"}),
        (
            {"and": [{"field": "year", "gte": 2021}, {"not": {"field": "label", "in": OTHERS}}]},
            {"roof-3", "bell-1"},
        ),
        # 10:00 in a zone two hours ahead is 08:00 in UTC.
        (
            {"field": "sent", "gte": datetime(2020, 2, 1, 8, tzinfo=UTC), "lt": date(2020, 2, 2)},
            {"roof-2"},
        ),
        (
            {"field": "sent", "gte": "2020-02-01T08:00Z", "lte": "2020-02-01T09:00+01:00"},
            {"roof-2"},
        ),
    ],
)  # fmt: skip
def test_filters(client: Client, condition: dict[str, Any], expected: set[str]) -> None:
    listed = client.scroll("letters", filter=condition)["documents"]
    assert {document["id"] for document in listed} == expected
    assert client.count("letters", condition) == len(expected)
    found = client.search("letters", "the organ of the chapel", filter=condition, limit=100)
    assert {*ids(found)} <= expected


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric", "bm25", "hybrid"])
def test_hits_below_a_probability_are_left_out(client: Client, ranking: str) -> None:
    text = "the roof of the chapel leaks"
    every = client.search("letters", text, ranking=ranking, limit=12, with_confidence=True)["hits"]
    threshold = every[1]["confidence"]
    some = client.search("letters", text, ranking=ranking, limit=12, score_threshold=threshold)
    assert ids(some) == [hit["id"] for hit in every if hit["confidence"] >= threshold]
    assert ids(client.search("letters", "zxqv", ranking=ranking, score_threshold=0.9)) == []


def test_a_tenant_has_a_key_that_expires(
    service: tuple[Client, Path], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    _, data = service
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    command = ["keys", "create", "--role", "write", "--name", "north", "--data-dir", str(data)]
    tenant = json.dumps({"field": "tenant", "eq": "north"})
    limits = ["--collection", "letters", "--filter", tenant, "--expires", tomorrow]
    capsys.readouterr()
    assert main([*command, *limits]) == 0
    key = capsys.readouterr().out.split()[-1]
    with Client(client.url, key) as north:
        own = {letter["id"] for letter in letters() if letter["payload"]["tenant"] == "north"}
        assert north.count("letters") == len(own)
        assert {*ids(north.search("letters", "the organ of the chapel", limit=100))} <= own
        assert {
            bucket["value"]
            for bucket in north.facets("letters", ["tenant"])["facets"][0]["buckets"]
        } == {"north"}
        with pytest.raises(ServiceError, match="roof-2"):
            north.get("letters", "roof-2")
        with pytest.raises(ServiceError) as refused:
            north.upsert("letters", [{"id": "x", "text": "a", "payload": {"tenant": "south"}}])
        assert refused.value.status == 422
        with pytest.raises(ServiceError) as other:
            north.collections()
        assert other.value.status == 403
    assert main(["keys", "revoke", "--name", "north", "--data-dir", str(data)]) == 0
    with Client(client.url, key) as north, pytest.raises(ServiceError) as revoked:
        north.count("letters")
    assert revoked.value.status == 401


def test_documents_expire(client: Client) -> None:
    passed = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    client.upsert(
        "letters",
        [
            {"id": "notice", "text": "The notice of the chapel", "ttl_seconds": 3600},
            {"id": "old", "text": "The old notice of the chapel", "expires_at": passed},
        ],
    )
    found = ids(client.search("letters", "notice", ranking="bm25"))
    assert found == ["notice"]
    client.update_payload("letters", ids=["notice"], expires_at=passed)
    assert client.count("letters") == len(LETTERS)


@pytest.mark.parametrize("n_bits", [1536, 3072])
def test_binary_embeddings_of_others(service: tuple[Client, Path], n_bits: int) -> None:
    client, _ = service
    vectors = np.random.default_rng(n_bits).normal(size=(len(LETTERS), n_bits)).astype(np.float32)
    ubinary = np.packbits(
        vectors > 0, axis=1
    )  # quantize_embeddings(..., "ubinary"), Cohere, Voyage
    binary = (ubinary.astype(np.int16) - 128).astype(np.int8)  # ... "binary"
    as_base64 = [base64.b64encode(code.tobytes()).decode() for code in ubinary]
    forms = [
        {"ubinary": ubinary[0].tolist()},
        {"binary": binary[0].tolist()},
        {"base64": as_base64[0]},
        ubinary[0].tobytes().hex(),
    ]
    client.create_collection("brought", n_bits=n_bits)
    client.upsert(
        "brought",
        [
            {"id": id_, "text": text, "code": {"ubinary": code.tolist()}}
            for (id_, text, *_), code in zip(LETTERS, ubinary, strict=True)
        ],
    )
    for form in forms:
        found = client.search("brought", code=form, limit=2)["hits"]
        assert (found[0]["id"], found[0]["distance"]) == ("roof-1", 0)
        assert found[1]["distance"]
    query = vectors[5] + vectors[6]
    scores = np.where(vectors > 0, 1.0, -1.0) @ query.astype(np.float64)
    best = [LETTERS[at][0] for at in np.argsort(-scores)[:4]]
    real = client.search("brought", vector=query.tolist(), ranking="asymmetric", limit=4)
    assert ids(real) == best
    both = client.search("brought", "tea in the garden", code=forms[0], limit=2)
    assert {*ids(both)} == {"roof-1", "walk-1"}
    assert ids(client.search("brought", "tea in the garden", limit=1)) == ["walk-1"]
    client.delete_collection("brought")


def test_a_vector_beside_a_text_is_refused_where_the_encoder_reads_texts(client: Client) -> None:
    with pytest.raises(ServiceError, match="takes texts") as refused:
        client.search("letters", "the organ", vector=[0.5] * 64)
    assert refused.value.status == 422


def test_hashes_of_pictures(tmp_path: Path) -> None:
    imagehash = pytest.importorskip("imagehash")
    pictures = {}
    for at in range(8):
        picture = Image.new("RGB", (320, 240), (20 * at, 90, 200 - 20 * at))
        draw = ImageDraw.Draw(picture)
        draw.ellipse((20 * at, 30, 20 * at + 120, 200), fill=(250, 30 * at, 0))
        draw.rectangle((200 - 15 * at, 20 + 10 * at, 300 - 15 * at, 90 + 10 * at), fill=(0, 0, 0))
        pictures[f"picture-{at}"] = picture
    with Collection.create(tmp_path / "data", "pictures", n_bits=64) as collection:
        collection.add(
            [{"id": name, "code": str(imagehash.phash(item))} for name, item in pictures.items()]
        )
        small = pictures["picture-5"].resize((100, 75))
        found = collection.search(code=str(imagehash.phash(small)), radius=8)
        assert found.ids[0] == "picture-5"
        array = imagehash.phash(small).hash
        assert collection.search(code={"ubinary": np.packbits(array).tolist()}, limit=1).ids == [
            "picture-5"
        ]
