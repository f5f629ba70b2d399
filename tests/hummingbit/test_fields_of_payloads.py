"""What a user does with payloads: change, count, group, sort and filter by them, everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hummingbit import Client, Collection, ServedCollection, ServiceError
from hummingbit.cli import main
from tests.support.service import make_data_folder, running_service

TEXTS = ["the moon", "the tide", "the sea", "a ship", "a bird"]
PAYLOADS: list[dict[str, Any]] = [
    {"shop": "north", "price": 5, "sent": "2024-05-01T00:30:00+02:00", "by": {"name": "Ann"}},
    {"shop": "north", "price": 15, "sent": "2024-05-01T00:00:00Z", "due": None},
    {"shop": "south", "price": 25, "sent": "2024-04-30", "due": "x"},
    {"shop": "south", "price": 7},
    {"price": 12, "title": "A moonlit night"},
]


@pytest.fixture(params=["embedded", "served"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Collection | ServedCollection]:
    make_data_folder(tmp_path)
    if request.param == "embedded":
        with Collection.create(tmp_path, "shop", encoder="words") as local:
            local.add(TEXTS, ids=list("abcde"), payloads=PAYLOADS)
            yield local
        return
    with running_service(tmp_path) as http, Client(str(http.base_url)) as client:
        client.create_collection("shop", encoder="words")
        served = ServedCollection(client, "shop")
        served.add(TEXTS, ids=list("abcde"), payloads=PAYLOADS)
        yield served


def ids(shop: Collection | ServedCollection, condition: dict[str, Any]) -> list[str]:
    return [document.id for document in shop.documents(condition)]


def test_payloads_are_changed_by_id_and_by_filter(shop: Collection | ServedCollection) -> None:
    before = shop.get("a")
    assert shop.update_payload(ids=["a", "nobody"], set={"seen": True}, remove=["by.name"]) == 1
    assert shop.update_payload(filter={"field": "price", "lt": 10}, merge={"by": {"age": 3}}) == 2
    after = shop.get("a")
    assert before is not None
    assert after is not None
    assert (after.text, after.code) == (before.text, before.code)
    assert after.payload == {**PAYLOADS[0], "seen": True, "by": {"age": 3}}
    generation = shop.generation
    assert shop.update_payload(ids=["b"], overwrite={"n": 1}, if_generation=generation) == 1
    with pytest.raises((RuntimeError, ServiceError), match=f"not {generation}; nothing was"):
        shop.update_payload(ids=["b"], overwrite={}, if_generation=generation)


def test_values_are_counted_grouped_and_sorted(shop: Collection | ServedCollection) -> None:
    shops, prices = shop.facets(["shop", {"field": "price", "interval": 10}])
    assert shops.buckets == [{"value": "north", "count": 2}, {"value": "south", "count": 2}]
    assert (shops.documents, shops.missing) == (4, 1)
    assert [(bucket["from"], bucket["count"]) for bucket in prices.buckets] == [
        (0, 2),
        (10, 2),
        (20, 1),
    ]
    found = shop.search("the moon", limit=2, group_by="shop", group_size=1)
    assert [(group.id, len(group.hits)) for group in found.groups] == [("north", 1), ("south", 1)]
    assert found.groups[0].hits[0].id == "a"
    counted = shop.search("the moon", limit=1, facets=["shop"], with_payload=["price"])
    assert counted[0].payload == {"price": 5}
    (shops,) = counted.facets
    with_word = sum("moon" in text or "the" in text.split() for text in TEXTS)
    assert (counted.facets_over, shops.documents + shops.missing) == ("words", with_word)
    listed = [document.id for document in shop.documents(sort=["sent:desc", "price"])]
    assert listed == ["b", "a", "c", "d", "e"]


def test_fields_that_no_document_has_are_named(shop: Collection | ServedCollection) -> None:
    found = shop.search("the moon", group_by="none")
    assert found.warnings == ["group_by: no document has the field 'none'"]
    with pytest.raises((ValueError, ServiceError), match="'price:desc'"):
        next(iter(shop.documents(sort="-price")))


def test_filters_by_parts_instants_nulls_and_ids(shop: Collection | ServedCollection) -> None:
    assert ids(shop, {"field": "shop", "prefix": "no"}) == ["a", "b"]
    assert ids(shop, {"field": "title", "contains": "moonlit"}) == ["e"]
    assert ids(shop, {"field": "sent", "lt": "2024-05-01"}) == ["a", "c"]
    assert ids(shop, {"field": "due", "is_null": True}) == ["b"]
    assert ids(shop, {"field": "due", "is_missing": True}) == ["a", "d", "e"]
    either = {"and": [{"has_id": ["a", "c", "zz"]}, {"field": "price", "gte": 10}]}
    assert ids(shop, either) == ["c"]


def test_the_command_line_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data_folder(tmp_path)
    with Collection.create(tmp_path, "shop", encoder="words") as local:
        local.add(TEXTS, ids=list("abcde"), payloads=PAYLOADS)
        local.add([{"id": "f", "text": "only a text"}])
    folder = ["--data-dir", str(tmp_path)]

    def run(*arguments: str) -> str:
        assert main([*arguments, *folder]) == 0
        return capsys.readouterr().out

    changed = run(
        "index",
        "payload",
        "shop",
        "--filter",
        '{"field": "price", "gt": 10}',
        "--set",
        '{"dear": true}',
    )
    assert changed == "shop: 3 payloads changed of 3 documents\n"
    assert "         2  north\n" in run("index", "facets", "shop", "shop")
    found = run("search", "shop", "moon", "--facets", "shop")
    assert ", of the documents with a word of the query\n" in found
    lines = run("index", "scroll", "shop", "--sort", "price:desc", "--limit", "2").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["c", "b"]
    assert "north:\n" in run("search", "shop", "the moon", "--group-by", "shop")
    assert re.search(r"^ \d  only a text  \d+%\n    f\n", run("search", "shop", "--id", "f"), re.M)
