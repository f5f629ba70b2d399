"""Recommendations by examples, and diverse hits, against plain loops over all documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit import Client, Collection, ServedCollection
from hummingbit.cli import main
from hummingbit.errors import InputError, ServiceError, UnknownDocument
from tests.support.service import service_with_keys

N, BITS = 60, 16
CODES = np.random.default_rng(5).integers(0, 256, (N, BITS // 8), dtype=np.uint8)
CODES[40:] = CODES[:20] ^ np.uint8(1)  # pairs that are alike
SIGNS = np.unpackbits(CODES, axis=1).astype(int) * 2 - 1
IDS = [f"d{at}" for at in range(N)]
PLACES = st.lists(st.integers(0, N - 1), min_size=1, max_size=4, unique=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    with Collection.create(data, "codes", n_bits=BITS) as collection:
        records = [
            {"id": id_, "code": code.tobytes().hex(), "payload": {"even": at % 2 == 0}}
            for at, (id_, code) in enumerate(zip(IDS, CODES, strict=True))
        ]
        collection.add(records)
    return data


@pytest.fixture(scope="module")
def collection(data: Path) -> Iterator[Collection]:
    with Collection.open(data, "codes", read_only=True) as collection:
        yield collection


def sigmoid(x: float) -> float:
    return 0.5 * (x / (1 + abs(x)) + 1)


def best_score(at: int, positive: list[int], negative: list[int]) -> float:
    def similarity(places: list[int]) -> float:
        return max((SIGNS[at] @ SIGNS[position] / BITS for position in places), default=-2)

    like, unlike = similarity(positive), similarity(negative)
    return sigmoid(like) if like > unlike else -sigmoid(unlike)


@given(positive=PLACES, negative=st.lists(st.integers(0, N - 1), max_size=3), even=st.booleans())
def test_hits_are_ordered_as_the_equations_say(
    collection: Collection, positive: list[int], negative: list[int], even: bool
) -> None:
    mean = SIGNS[positive].mean(axis=0)
    vector = 2 * mean - SIGNS[negative].mean(axis=0) if negative else mean
    scores = {
        "average_vector": [float(np.round(row @ vector, 9)) for row in SIGNS],
        "best_score": [best_score(at, positive, negative) for at in range(N)],
    }
    others = [at for at in range(N) if at not in positive + negative and (at % 2 == 0 or not even)]
    for strategy, by_place in scores.items():
        hits = collection.recommend(
            [IDS[at] for at in positive],
            [IDS[at] for at in negative],
            strategy=strategy,
            limit=N,
            filter={"field": "even", "eq": True} if even else None,
        )
        expected = sorted(others, key=lambda at: (-by_place[at], at))
        assert hits.ids == [IDS[at] for at in expected]
        assert hits.ranking == strategy
        if strategy == "best_score":
            np.testing.assert_allclose(hits.scores, [by_place[at] for at in expected])


def test_examples_are_ids_codes_vectors_and_texts(collection: Collection, tmp_path: Path) -> None:
    code, vector = CODES[3].tobytes().hex(), SIGNS[7].astype(np.float32)
    by_ids = collection.recommend(["d3", "d7"], ["d9"], limit=50).ids
    mixed = collection.recommend(
        [{"code": code}, vector], [{"code": CODES[9].tobytes().hex()}], limit=60
    ).ids
    assert [item for item in mixed if item not in ("d3", "d7", "d9")][:50] == by_ids
    with Collection.create(tmp_path / "texts", "t", n_bits=BITS) as empty:
        assert list(empty.recommend([{"code": code}])) == []


def test_only_negative_examples_push_hits_away(collection: Collection) -> None:
    farthest = collection.recommend([], ["d3"], strategy="best_score", limit=N).ids
    distances = [int((SIGNS[int(item[1:])] != SIGNS[3]).sum()) for item in farthest]
    assert distances == sorted(distances, reverse=True)
    assert len(farthest) == N - 1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Codes near few centres, so that ties are many, of which some were deleted."""
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 256, (12, BITS // 8), dtype=np.uint8)[rng.integers(0, 12, 3_000)]
    codes ^= 1 << rng.integers(0, 11, codes.shape).astype(np.uint8)
    with Collection.create(tmp_path_factory.mktemp("many"), "codes", n_bits=BITS) as collection:
        collection.add(
            [{"id": str(at), "code": code.tobytes().hex()} for at, code in enumerate(codes)]
        )
        collection.delete([str(at) for at in range(0, 3_000, 7)])
        yield collection


@given(
    positive=st.lists(st.integers(0, 2_999).filter(lambda at: at % 7), max_size=3, unique=True),
    negative=st.lists(st.integers(0, 2_999).filter(lambda at: at % 7), max_size=3, unique=True),
    limit=st.sampled_from([1, 5, 60, 900]),
)
@settings(max_examples=40, deadline=None)
def test_the_best_of_many_are_those_of_all_in_order(
    many: Collection, positive: list[int], negative: list[int], limit: int
) -> None:
    if not positive and not negative:
        positive = [1]
    left = {int(document.id): document.code for document in many.documents()}
    bits = {
        at: np.unpackbits(np.frombuffer(bytes.fromhex(code), np.uint8)) for at, code in left.items()
    }

    def distance(at: int, places: list[int]) -> int:
        return min(
            (int((bits[at] != bits[position]).sum()) for position in places), default=BITS + 1
        )

    def rank(at: int) -> tuple[int, int]:
        like, unlike = distance(at, positive), distance(at, negative)
        return (like - BITS - 1 if like < unlike else BITS + 1 - unlike, at)

    expected = sorted(left.keys() - {*positive, *negative}, key=rank)[:limit]
    ids = [[str(at) for at in some] for some in (positive, negative)]
    hits = many.recommend(*ids, strategy="best_score", limit=limit)
    assert hits.ids == [str(at) for at in expected]


def greedy(similarity: Any, relevance: Any, diversity: float, k: int) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < k:
        gains = {
            at: (1 - diversity) * relevance[at]
            - diversity * max([0.0, *(similarity[at][item] for item in chosen)])
            for at in range(len(relevance))
            if at not in chosen
        }
        chosen.append(max(gains, key=lambda at: (gains[at], -at)))
    return chosen


@pytest.mark.parametrize("diversity", [0, 0.3, 0.7, 1])
def test_diverse_hits_are_those_of_the_greedy_loop(
    collection: Collection, diversity: float
) -> None:
    ranked = collection.search(id="d0", limit=N)
    places = [int(id_[1:]) for id_ in ranked.ids]
    similarity = SIGNS[places] @ SIGNS[places].T / BITS
    above = ranked.scores - ranked.scores.min()
    chosen = greedy(similarity, above / above.max(), diversity, 12)
    for limit in (1, 5, 12):
        hits = collection.search(id="d0", limit=limit, diversity=diversity)
        assert hits.ids == [ranked.ids[at] for at in chosen[:limit]]
    page = collection.search(id="d0", limit=4, offset=3, diversity=diversity)
    assert page.ids == [ranked.ids[at] for at in chosen[3:7]]


def test_what_cannot_be_recommended_is_named(collection: Collection) -> None:
    wrong: list[tuple[Any, str]] = [
        (([], ["d1"]), "positive: has no example"),
        ((["d1"], [{"code": "00"}]), "negative"),
        (("d1", []), "positive: is one str"),
        (([7.5], []), "positive"),
    ]
    for arguments, reason in wrong:
        with pytest.raises(InputError, match=reason):
            collection.recommend(*arguments)
    with pytest.raises(InputError, match="strategy: is 'magic'; it must be one of average_vector"):
        collection.recommend(["d1"], strategy="magic")
    with pytest.raises(UnknownDocument):
        collection.recommend(["unknown"])
    with pytest.raises(TypeError, match="ranking"):
        collection.recommend(["d1"], ranking="hamming")  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"diversity: is 2; it must be from 0 to 1"):
        collection.search(id="d1", diversity=2)


def test_a_service_recommends_as_the_library_does(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(data, "codes", read_only=True) as here:
        expected = here.recommend(["d1", "d2"], ["d5"], strategy="best_score", limit=7)
        diverse = here.search(id="d1", limit=5, diversity=0.8)
    flags = "codes --like d1 --like d2 --unlike d5 --strategy best_score --limit 7 --json".split()
    assert main(["search", *flags, "--data-dir", str(data)]) == 0
    assert [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]] == expected.ids
    with service_with_keys(data, workers=0) as (url, key), Client(url, key) as client:
        served = ServedCollection(client, "codes")
        found = served.recommend(["d1", "d2"], ["d5"], strategy="best_score", limit=7)
        assert (found.ids, found.ranking) == (expected.ids, "best_score")
        np.testing.assert_allclose(found.scores, expected.scores)
        assert served.search(id="d1", limit=5, diversity=0.8).ids == diverse.ids
        monkeypatch.setenv("HUMMINGBIT_KEY", key)
        assert main(["search", *flags, "--url", url]) == 0
        assert [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]] == expected.ids
        with pytest.raises(ServiceError, match="code") as refused:
            client.recommend("codes", ["d1", {"code": "00"}])
        assert refused.value.status == 422
