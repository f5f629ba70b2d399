"""Collections in this process: what goes in, what is found, and who else may write."""

from __future__ import annotations

import doctest
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hummingbit.embedded
from hummingbit import Collection, SemanticHasher, load_encoder
from hummingbit.corpus.document import DocumentError
from hummingbit.encoder.codes import code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import (
    CollectionExists,
    DataFolderError,
    DataFolderInUse,
    StoreClosed,
    StoreError,
    UnknownCollection,
)

TEXTS = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"]
IDS = ["a", "b", "c", "d"]
LABELS = ["pets", "pets", "money", "money"]


@pytest.fixture(scope="module")
def hasher() -> SemanticHasher:
    return SemanticHasher(n_bits=16, method="lsh").fit(TEXTS * 10, LABELS * 10)


@pytest.fixture
def collection(tmp_path: Path, hasher: SemanticHasher) -> Iterator[Collection]:
    with Collection.create(tmp_path / "data", "demo", encoder=hasher) as made:
        yield made


def test_texts_are_found_by_their_words_and_by_their_codes(collection: Collection) -> None:
    assert collection.add(TEXTS, ids=IDS, labels=LABELS) == 4
    hits = collection.search("bond", limit=4)
    assert hits.ranking == "hybrid"
    assert hits.ids[0] == "d"
    assert hits[0].payload == {"label": "money"}
    assert hits[0].text == "a bond or a stock"
    assert "d  a bond or a stock" in repr(hits)
    assert hits.recognized_terms == 1
    nearest = collection.search(id="b", ranking="hamming", limit=1)
    assert nearest.ids == ["b"]
    assert nearest.distances.tolist() == [0]
    assert len(collection) == 4
    assert repr(collection) == "<Collection 'demo': 4 documents, 16 bits, encoder 'demo'>"


def test_several_queries_are_answered_as_each_alone(collection: Collection) -> None:
    collection.add(TEXTS, ids=IDS)
    together = collection.search_many(["cats", "bonds"], limit=2, ranking="hamming")
    alone = [collection.search(text, limit=2, ranking="hamming") for text in ["cats", "bonds"]]
    assert [hits.ids for hits in together] == [hits.ids for hits in alone]
    np.testing.assert_array_equal(together[0].scores, alone[0].scores)


ORDERS: list[dict[str, Any]] = [
    {"ranking": "hamming"},
    {"ranking": "asymmetric"},
    {"ranking": "bm25"},
    {"ranking": "hybrid"},
    {"ranking": "hybrid", "codes_weight": 100},
    {"ranking": "hybrid", "codes_weight": 0.01},
    {"ranking": "hamming", "rescore": "bm25"},
    {"ranking": "bm25", "rescore": "logits"},
    {"ranking": "hybrid", "filter": {"field": "even", "eq": True}},
]
WORDS = "cat dog stock bond market price fish bird rate coin".split()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS, size=1 + row % 7)) for row in range(200)]
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(texts)
    folder = tmp_path_factory.mktemp("data")
    with Collection.create(folder, "many", encoder=hasher) as collection:
        collection.add(texts, payloads=[{"even": row % 2 == 0} for row in range(200)])
        yield collection


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_confidences_are_from_0_to_1_and_in_the_order_of_the_hits(
    many: Collection, order: dict[str, Any]
) -> None:
    random = np.random.default_rng(2)
    spread = []
    for _ in range(30):
        hits = many.search(" ".join(random.choice([*WORDS, "zebra"], size=3)), limit=200, **order)
        confidences = hits.confidences
        assert ((confidences >= 0) & (confidences <= 1)).all()
        assert (np.diff(confidences) <= 0).all()
        assert (np.diff(confidences) < 0).sum() <= (np.diff(hits.scores) < 0).sum()
        spread.append(len(np.unique(confidences)))
    assert np.mean(spread) > 3


def test_frames_go_in_and_come_out(collection: Collection) -> None:
    given = pd.DataFrame(
        {
            "key": [7, 8, 9],
            "title": ["a cat", "a dog", None],
            "body": ["and a dog", "and a cat", "stocks"],
            "topic": ["pets", "pets", float("nan")],
            "year": [2001, 2002, 2003],
        }
    )
    text = ["title", "body"]
    assert collection.add(given, id_field="key", text_field=text, label_field="topic") == 3
    stored = collection.to_pandas().set_index("id")
    mistakes: list[dict[str, Any]] = [
        {"id_field": "keyy"},
        {"label_field": "topik"},
        {"text_field": "Body"},
    ]
    for wrong in mistakes:
        with pytest.raises(InputError, match=f"{next(iter(wrong))}: .*the table has 'key', 't"):
            collection.add(given, **{"text_field": text, **wrong})
    with pytest.raises(InputError, match="text_field: is missing; the table has 'key', 'title'"):
        collection.add(given)
    assert stored.loc["7", "text"] == "a cat\nand a dog"
    assert stored.loc["9", "text"] == "stocks"
    assert stored["year"].tolist() == [2001, 2002, 2003]
    found = collection.search("dog", filter={"field": "year", "gte": 2002}, limit=5).to_pandas()
    assert found["id"].tolist()[0] == "8"
    assert found["label"].tolist()[0] == "pets"
    assert set(found["year"]) == {2002, 2003}


def test_vectors_and_codes_go_in(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 12))
    hasher = SemanticHasher(n_bits=8).fit(vectors)
    with Collection.create(tmp_path, "vectors", encoder=hasher) as one:
        one.add(vectors)
        assert one.search(vectors[3], limit=1, ranking="hamming").distances[0] == 0
    with Collection.create(tmp_path, "codes", n_bits=8) as other:
        codes = [code_to_hex(code) for code in hasher.transform(vectors)]
        other.add([{"id": str(i), "code": code} for i, code in enumerate(codes)])
        hits = other.search(code=codes[3], limit=50)
        bits = np.unpackbits(hasher.transform(vectors), axis=1)
        expected = np.sort((bits != bits[3]).sum(axis=1))
        assert hits.distances.tolist() == expected.tolist()


def test_documents_without_ids_are_numbered_and_replace_none(collection: Collection) -> None:
    collection.add(TEXTS[:2])
    collection.add(TEXTS[2:])
    assert sorted(collection.to_pandas()["id"]) == ["0", "1", "2", "3"]
    collection.delete(["0"])
    with pytest.raises(InputError, match="document '3' already exists"):
        collection.add(["a cat"])
    assert len(collection) == 3
    with pytest.raises(InputError, match="ids: is one str; it must be a sequence of ids"):
        collection.delete("12")
    assert len(collection) == 3


def test_threads_that_add_at_once_number_their_documents_apart(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "codes", n_bits=64) as made:
        with ThreadPoolExecutor(4) as pool:
            written = list(pool.map(made.add, [[{"code": "00" * 8}] * 3] * 24))
        assert sum(written) == len(made) == 72
        assert set(made.to_pandas()["id"]) == {str(number) for number in range(72)}


def test_labels_that_pandas_made_floats_are_the_whole_numbers_that_they_were(
    collection: Collection,
) -> None:
    collection.add(TEXTS[:3], ids=IDS[:3], labels=pd.Series([1, 2, None]))
    assert collection.to_pandas()["label"].tolist()[:2] == ["1", "2"]
    assert collection.evaluate(TEXTS[:1], [1], metrics=["mAP@10"]).metrics[0].expected > 0


def test_lists_that_pandas_reads_of_parquet_are_lists(
    collection: Collection, tmp_path: Path
) -> None:
    columns: dict[str, Any] = {
        "text": TEXTS[:2],
        "labels": [["pets", "cats"], ["pets"]],
        "years": [[2001, 2002], []],
        "deep": [[["a"], ["b"]], None],
    }
    pd.DataFrame(columns).to_parquet(tmp_path / "notes.parquet")
    read = pd.read_parquet(tmp_path / "notes.parquet")
    collection.add(read, ids=["a", "b"])
    collection.add(TEXTS[2:], ids=["c", "d"], labels=read["labels"])
    stored = {id_: collection.get(id_) for id_ in IDS}
    assert [document and document.payload for document in stored.values()] == [
        {"labels": ["pets", "cats"], "years": [2001, 2002], "deep": [["a"], ["b"]]},
        {"label": "pets", "years": []},
        {"labels": ["pets", "cats"]},
        {"label": "pets"},
    ]
    hasher = SemanticHasher(n_bits=16, method="lsh").fit(
        TEXTS[:2] * 10, pd.concat([read] * 10)["labels"]
    )
    assert hasher.classes_.tolist() == ["cats", "pets"]


def test_an_error_names_the_document_and_writes_nothing(collection: Collection) -> None:
    with pytest.raises(DocumentError, match=r"documents\[1\]\.text"):
        collection.add(["a cat", "\ud800"])
    with pytest.raises(InputError, match="ids: there are 1 for 2 documents"):
        collection.add(["a", "b"], ids=["x"])
    with pytest.raises(InputError, match="documents: is one str"):
        collection.add("a cat")
    with pytest.raises(InputError, match="labels: is one str; it must be a sequence of labels"):
        collection.add(["a", "b"], labels="xy")
    with pytest.raises(DocumentError, match=r"documents\[0\]\.payload: is 5; it must be a mapping"):
        collection.add(["a"], payloads=[5])  # type: ignore[list-item]
    with pytest.raises(InputError, match="queries: is one str"):
        collection.search_many("cats")
    with pytest.raises(InputError, match="id: cannot be combined"):
        collection.search("a", id="b")
    assert len(collection) == 0
    assert collection.generation == 0


def test_evaluation_is_that_of_the_command_line(collection: Collection) -> None:
    collection.add(TEXTS, ids=IDS, labels=LABELS)
    report = collection.evaluate(["cat", "bond"], ["pets", "money"], metrics=["P@1", "mAP@100"])
    assert report.queries == 2
    assert {metric.name: metric.expected for metric in report.metrics}["P@1"] == 1
    judged = collection.evaluate(["cat"], ids=["q"], qrels={"q": {"a": 1}}, metrics=["MRR"])
    assert 0 < judged.metrics[0].expected <= 1


def test_a_script_learns_what_became_of_its_rows(collection: Collection) -> None:
    frame = pd.DataFrame({"key": [f"k{at % 5}" for at in range(8)], "text": TEXTS * 2})
    with pytest.raises(InputError, match="3 of 8 documents repeat an id, such as 'k0', which 2"):
        collection.add(frame, id_field="key")
    assert len(collection) == 0
    added = collection.add(frame, id_field="key", on_repeated_id="last")
    assert (added, added.replaced, added.repeated, added.numbered) == (5, 0, 3, 0)
    assert repr(added) == "<Added 5 documents, dropped 3 because a later one has the same id>"
    again = collection.add(["a cat", "a dog"], ids=["k1", "new"])
    assert (again, again.replaced) == (2, 1)
    assert repr(again) == "<Added 2 documents, of which 1 replaced another>"
    assert len(collection) == 6


def test_a_column_of_ids_with_gaps_is_refused_unless_told(collection: Collection) -> None:
    frame = pd.DataFrame({"key": ["a", None, "c", None], "text": TEXTS})
    with pytest.raises(InputError, match=r"'key'; 2 of 4 documents lack it, .* documents\[1\]"):
        collection.add(frame, id_field="key")
    with pytest.raises(InputError, match="ids: 1 of 2 documents have none"):
        collection.add(TEXTS[:2], ids=["a", None])
    assert len(collection) == 0
    added = collection.add(frame, id_field="key", on_missing_id="number")
    assert (added, added.numbered) == (4, 2)
    assert repr(added) == "<Added 4 documents, numbered 2 without an id>"
    with pytest.raises(InputError, match="on_missing_id: is 'guess'; it must be 'raise' or"):
        collection.add(frame, on_missing_id="guess")  # type: ignore[arg-type]


def test_a_collection_that_exists_is_not_created_again(tmp_path: Path) -> None:
    Collection.create(tmp_path, "codes", n_bits=16).close()
    with pytest.raises(CollectionExists, match=r"'codes' exists in .*Collection\.open"):
        Collection.create(tmp_path, "codes", n_bits=16)
    with Collection.create(tmp_path, "codes", n_bits=16, exist_ok=True) as same:
        assert same.n_bits == 16
    with pytest.raises(CollectionExists):
        Collection.create(tmp_path, "codes", n_bits=24, exist_ok=True)


def test_a_loaded_encoder_is_no_encoder_of_a_collection(
    tmp_path: Path, hasher: SemanticHasher
) -> None:
    hasher.save(tmp_path / "encoder")
    loaded: Any = load_encoder(tmp_path / "encoder")
    with pytest.raises(InputError, match=r"encoder: is an object of the type Encoder; give .* the"):
        Collection.create(tmp_path / "data", "texts", encoder=loaded)
    with Collection.create(tmp_path / "data", "texts", encoder=tmp_path / "encoder") as texts:
        assert texts.n_bits == loaded.n_bits


def test_an_unknown_encoder_is_told_from_those_there_are(
    tmp_path: Path, hasher: SemanticHasher
) -> None:
    with pytest.raises(InputError, match=r"encoder: is 'nope'; it must be one of .* \(none\), or"):
        Collection.create(tmp_path, "texts", encoder="nope")
    Collection.create(tmp_path, "one", encoder=hasher).close()
    with pytest.raises(InputError, match=r"of the data folder \(one\), or the folder of one$"):
        Collection.create(tmp_path, "texts", encoder="nope")


def test_an_id_that_is_none_says_what_ids_are(collection: Collection) -> None:
    with pytest.raises(InputError, match=r"it must be a text or a whole number"):
        collection.get(["0", "1"])  # type: ignore[arg-type]


def test_collections_of_one_folder_are_open_together(
    tmp_path: Path, hasher: SemanticHasher
) -> None:
    with Collection.create(tmp_path, "one", encoder=hasher) as one:
        one.add(TEXTS, ids=IDS)
        with Collection.open(tmp_path, "one") as again:
            assert again.search("cats").ids == one.search("cats").ids
            again.delete(["a"])
            assert len(one) == 3
        with (
            pytest.raises(DataFolderInUse),
            DataFolder(tmp_path, writable=True),
        ):
            pass
        with Collection.open(tmp_path, "one", read_only=True) as reader:
            assert len(reader) == 3
            with pytest.raises(StoreError, match="is open for reading only"):
                reader.add(["a cat"])
    DataFolder(tmp_path, writable=True).close()


def test_a_collection_that_nobody_closed_gives_its_folder_back(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path, "codes", n_bits=16)
    beside = Collection.open(tmp_path, "codes")
    beside.close()
    beside.close()
    del beside
    with pytest.raises(DataFolderInUse):
        DataFolder(tmp_path, writable=True)
    del collection
    deadline = time.monotonic() + 120
    while True:
        try:
            DataFolder(tmp_path, writable=True).close()
            return
        except DataFolderInUse:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_encoder_is_copied_once(tmp_path: Path, hasher: SemanticHasher) -> None:
    saved = hasher.save(tmp_path / "saved")
    data = tmp_path / "data"
    for name, given in (("one", hasher), ("two", saved), ("three", "one")):
        Collection.create(data, name, encoder=given).close()
    assert [path.name for path in (data / "encoders").iterdir()] == ["one"]
    other = SemanticHasher(n_bits=24, method="lsh").fit(TEXTS * 10)
    with pytest.raises(CollectionExists):
        Collection.create(data, "one", encoder=other)


def test_a_collection_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError):
        Collection.open(tmp_path / "missing", "demo")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownCollection):
        Collection.open(tmp_path / "empty", "demo", read_only=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": "3"},
        {"offset": 0.5},
        {"radius": -1},
        {"radius": 2.5},
        {"ranking": "magic"},
        {"filter": {"x": 1}},
        {"hybrid": {"weight": 1}},
        {"hybrid": {"codes": "much"}},
        {"rescore": {"to": "bm25"}},
    ],
)
def test_a_search_names_what_is_wrong(collection: Collection, wrong: dict[str, Any]) -> None:
    collection.add(TEXTS, ids=IDS)
    with pytest.raises(InputError, match=next(iter(wrong))):
        collection.search("a cat", **wrong)


@pytest.mark.parametrize("query", [5, ["bond", "cat"], {"bond"}])
def test_a_query_is_a_text_or_a_vector(collection: Collection, query: Any) -> None:
    with pytest.raises(DocumentError, match="it must be a text, a vector, or a mapping with both"):
        collection.search(query)


def test_a_text_and_a_vector_do_not_go_together_where_the_encoder_reads_texts(
    collection: Collection,
) -> None:
    for vector in (np.ones(collection.n_bits), [0.5, 0.5]):
        with pytest.raises(InputError, match=r"vector: cannot be encoded: .* takes texts"):
            collection.search("cats", vector=vector)


def test_a_search_takes_whole_numbers_of_numpy(collection: Collection) -> None:
    collection.add(TEXTS, ids=IDS)
    how: dict[str, Any] = {"limit": 2, "offset": 1, "radius": 9}
    expected = collection.search(id="a", ranking="hamming", **how)
    how = {name: np.int64(value) for name, value in how.items()}
    found = collection.search(id="a", ranking="hamming", **how)
    assert found.ids == expected.ids
    assert len(expected) > 0


def test_a_search_takes_the_options_that_a_request_has(collection: Collection) -> None:
    collection.add(TEXTS, ids=IDS)
    weighed = collection.search("a cat", hybrid={"codes": 0.1})
    assert weighed.scores.tolist() == collection.search("a cat", codes_weight=0.1).scores.tolist()
    assert weighed.scores.tolist() != collection.search("a cat").scores.tolist()
    (hit,) = collection.search("a cat", limit=1, highlight=True)
    assert hit.highlight is not None
    assert hit.highlight.passage == "a cat and a dog"
    with pytest.raises(TypeError, match=r"search\(\) has no argument 'explain'"):
        collection.search("a cat", explain=True)  # type: ignore[call-arg]


def test_the_examples_of_its_docstrings_hold() -> None:
    found = doctest.testmod(hummingbit.embedded)
    assert found.attempted > 0
    assert not found.failed


def test_a_closed_collection_refuses_everything(tmp_path: Path, hasher: SemanticHasher) -> None:
    with Collection.create(tmp_path, "notes", encoder=hasher) as notes:
        notes.add(TEXTS, ids=IDS)
    for call in (
        lambda: notes.search("cats"),
        lambda: notes.add(["a dog"], ids=["z"]),
        lambda: notes.get("a"),
        lambda: len(notes),
    ):
        with pytest.raises(StoreClosed, match="'notes' is closed"):
            call()
    assert "closed" in repr(notes)
    notes.close()
    with Collection.open(tmp_path, "notes") as again:
        assert len(again) == len(TEXTS)


def test_a_vector_is_searched_by_name(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 16))
    hasher = SemanticHasher(n_bits=16, method="lsh").fit(vectors)
    with Collection.create(tmp_path, "numbers", encoder=hasher) as numbers:
        numbers.add(vectors)
        assert numbers.search(vector=vectors[7]).ids == numbers.search(vectors[7]).ids
        with pytest.raises(InputError, match="vector: is given twice"):
            numbers.search(vectors[7], vector=vectors[8])


def test_a_number_that_another_document_has_as_its_id_is_not_given(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "c", encoder=None) as collection:
        records = [{"id": "1", "text": "sun"}, {"text": "star"}]
        with pytest.raises(InputError, match="another has '1', the number of one"):
            collection.add(records)
        assert len(collection) == 0
        assert collection.add([{"id": "0", "text": "sun"}, {"text": "star"}]).numbered == 1


def test_null_is_told_from_missing(tmp_path: Path) -> None:
    records = [{"id": "a", "text": "sun", "due": None}, {"id": "b", "text": "star"}]
    frame = pd.DataFrame({"id": ["c", "d"], "text": ["moon", "tide"], "due": [None, "2024-05-01"]})
    with Collection.create(tmp_path, "c", encoder=None) as collection:
        collection.add(records)
        collection.add(frame)
        assert collection.count({"field": "due", "is_null": True}) == 1
        assert collection.count({"field": "due", "is_missing": True}) == 2


def test_dates_and_numbers_of_numpy_are_those_of_payloads_and_filters(tmp_path: Path) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    with Collection.create(tmp_path / "d", "notes", encoder=None) as notes:
        notes.add([{"id": "a", "text": "jam", "payload": {"on": noon, "at": {"n": [np.int64(3)]}}}])
        notes.add(["tea"], ids=["b"], payloads=[{"on": date(2023, 5, 1), "tags": {"green"}}])
        notes.update_payload(ids=["b"], set={"weight": np.float32(0.5)})
        stored = notes.get("b")
        assert stored is not None
        assert stored.payload == {"on": "2023-05-01", "tags": ["green"], "weight": 0.5}
        assert notes.search("jam tea", filter={"field": "on", "gte": date(2024, 1, 1)}).ids == ["a"]
        assert notes.search("jam tea", filter={"field": "on", "eq": noon}).ids == ["a"]
        assert notes.count({"field": "at.n", "in": np.array([3, 4])}) == 1
        with pytest.raises(
            InputError, match="set: a value is of type object, which JSON does not have"
        ):
            notes.update_payload(ids=["b"], set={"weight": object()})


def test_times_of_any_zone_are_found_by_their_instant(tmp_path: Path) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    times = pd.to_datetime(["2024-05-01T12:00:00Z", "2024-05-02T00:00:00Z"]).tz_convert(
        "Asia/Tokyo"
    )
    frame = pd.DataFrame({"id": ["a", "b"], "text": ["jam", "tea"], "on": times})
    with Collection.create(tmp_path / "d", "notes", encoder=None) as notes:
        notes.add(frame)
        notes.add(["sun"], ids=["c"], payloads=[{"on": "2024-05-01T12:00:00Z"}])
        assert notes.count({"field": "on", "eq": noon}) == 2
        assert notes.count({"field": "on", "in": [times[0], date(2024, 5, 2)]}) == 3
