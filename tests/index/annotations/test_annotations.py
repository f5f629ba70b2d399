"""Labels and judgements of a collection, as long as its documents and as durable."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index import labels as annotations_module
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreError
from hummingbit.index.filters import parse_filter
from hummingbit.index.ingestion import carry_annotations, carry_most_annotations, delete_missing
from hummingbit.index.labels import Annotations
from hummingbit.index.store.annotations import (
    DocumentLabel,
    Judgement,
    Table,
    agreed_labels,
    judgement_to_json,
    label_to_json,
    parse_judgement,
    parse_label,
)
from hummingbit.index.store.store import Store
from tests.support.collections import code_collection, code_documents, text_collection
from tests.support.encoders import random_texts

CODES = ("0000", "00ff", "ffff", "0f0f")
EARLY, LATE = "2026-01-01T00:00:00.000+00:00", "2026-02-01T00:00:00.000+00:00"


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    made = code_collection(tmp_path)
    made.upsert(code_documents(CODES))
    return made


def reopened(collection: Collection) -> Collection:
    collection.close()
    return Collection(Store(collection.store.path, writable=True))


def test_what_was_acknowledged_is_there_when_the_store_is_opened_again(
    collection: Collection,
) -> None:
    before = collection.generation
    labels = [DocumentLabel("d0", ("a", "b"), "ann", 2, EARLY), DocumentLabel("d1", (), "ann")]
    judgement = Judgement("what?", "d2", -1, "bob", LATE)
    assert collection.annotations.set_labels(labels) == (2, before + 1)
    assert collection.annotations.set_judgements([judgement]) == (1, before + 2)
    again = reopened(collection)
    assert again.annotations.labels() == labels
    assert again.annotations.judgements() == [judgement]
    assert again.annotations.counts() == (2, 1)
    assert again.generation == before + 2
    assert again.verify().problems == []


def test_repeating_a_write_changes_nothing(collection: Collection) -> None:
    label = DocumentLabel("d0", ("a",), "ann", 1, EARLY)
    written = collection.annotations.set_labels([label])
    later = DocumentLabel("d0", ("a",), "ann", 1, LATE)
    assert collection.annotations.set_labels([later]) == (0, written.generation)
    assert collection.annotations.labels() == [label]


def test_a_person_has_one_label_of_a_document_and_can_take_it_back(collection: Collection) -> None:
    notes = collection.annotations
    notes.set_labels([DocumentLabel("d0", ("a",), "ann"), DocumentLabel("d0", ("b",), "bob")])
    notes.set_labels([DocumentLabel("d0", ("c",), "ann")])
    assert [(label.who, label.labels) for label in notes.labels()] == [
        ("ann", ("c",)),
        ("bob", ("b",)),
    ]
    assert notes.set_labels([], [("d0", "ann"), ("d3", "ann")]).changed == 1
    assert [label.who for label in notes.labels()] == ["bob"]


def test_one_wrong_id_and_nothing_is_written(collection: Collection) -> None:
    labels = [DocumentLabel("d0", ("a",)), DocumentLabel("nobody", ("a",))]
    with pytest.raises(InputError, match="there is no document 'nobody'") as refused:
        collection.annotations.set_labels(labels)
    assert refused.value.position == 1
    assert collection.annotations.labels() == []
    assert collection.generation == 1


def test_labels_go_with_a_deleted_document_and_stay_with_a_replaced_one(
    collection: Collection,
) -> None:
    notes = collection.annotations
    notes.set_labels([DocumentLabel(f"d{at}", ("a",)) for at in range(4)])
    notes.set_judgements([Judgement("q", f"d{at}", 1) for at in range(4)])
    collection.upsert([Document("d0", code="1234")])
    collection.delete(["d1"])
    collection.delete_where(parse_filter({"field": "at", "eq": 2}))
    assert [label.id for label in notes.labels()] == ["d0", "d3"]
    assert [judgement.id for judgement in notes.judgements()] == ["d0", "d3"]


def test_pages_hold_every_record_once(collection: Collection) -> None:
    notes = collection.annotations
    records = [DocumentLabel(f"d{at}", ("a",), who) for at in range(4) for who in ("ann", "bob")]
    notes.set_labels(records)
    found, after = [], ()
    while page := notes.labels(after, 3):
        found += page
        after = page[-1].key  # type: ignore[assignment]
    assert found == records
    assert [label.id for label in notes.labels(who="bob")] == ["d0", "d1", "d2", "d3"]
    assert [label.who for label in notes.labels(id_="d2")] == ["ann", "bob"]


def test_a_reader_in_another_process_sees_labels_and_searches_on(collection: Collection) -> None:
    reader = Collection(Store(collection.store.path, writable=False))
    collection.annotations.set_labels([DocumentLabel("d0", ("a",))])
    assert reader.follow()
    assert reader.generation == collection.generation
    assert [label.id for label in reader.annotations.labels()] == ["d0"]
    reader.close()


def test_a_changed_record_is_noticed(collection: Collection) -> None:
    collection.annotations.set_labels([DocumentLabel("d0", ("a",))])
    with closing(sqlite3.connect(collection.store.path)) as connection:
        connection.execute("UPDATE labels SET grade = 3")
        connection.commit()
    assert "record of labels ('d0', 'anonymous')" in collection.verify().problems[0]
    with pytest.raises(StoreError, match="is damaged"):
        collection.annotations.labels()


def test_reindexing_carries_labels_and_later_changes_of_them(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    source, target = text_collection(tmp_path / "one"), text_collection(tmp_path / "other", 64)
    texts = [Document(f"d{at}", text) for at, text in enumerate(random_texts(4))]
    for item in (source, target):
        item.upsert(texts)
    label = DocumentLabel("d0", ("a",), "ann", 1, EARLY)
    source.annotations.set_labels([label])
    target.annotations.set_labels([DocumentLabel("d1", ("old",))])
    source.annotations.set_judgements([Judgement("q", "d2", 1)])
    carry_annotations(source, target)
    assert target.annotations.labels() == [label]
    assert target.annotations.judgements() == source.annotations.judgements()


def test_a_copy_while_others_write_leaves_little_for_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotations_module, "RECORDS_AT_ONCE", 3)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    source, target = text_collection(tmp_path / "one"), text_collection(tmp_path / "other", 64)
    texts = [Document(f"d{at}", text) for at, text in enumerate(random_texts(10))]
    source.upsert(texts)
    target.upsert(texts[:9])
    source.annotations.set_labels([DocumentLabel(text.id, ("a",), "ann") for text in texts])
    source.annotations.set_judgements([Judgement("q", text.id, 1, "ann") for text in texts])
    before = target.generation
    copied = carry_most_annotations(source, target)
    # Three times three labels, and as many judgements; those of d9 are for later.
    assert target.generation == before + 6
    assert target.annotations.labels() == source.annotations.labels()[:9]
    with pytest.raises(InputError, match="there is no document 'd9'"):
        carry_annotations(source, target, copied)
    target.upsert(texts[9:])
    source.annotations.set_labels([DocumentLabel("d0", ("b",), "ann")], [("d1", "ann")])
    source.delete(["d2"])
    delete_missing(source, target)
    carry_annotations(source, target, copied)
    assert target.annotations.labels() == source.annotations.labels()
    assert target.annotations.judgements() == source.annotations.judgements()
    before = target.generation
    carry_annotations(source, target)
    assert target.generation == before


@pytest.mark.parametrize("written_since", [False, True])
def test_the_last_copy_reads_no_more_than_what_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written_since: bool
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    source, target = text_collection(tmp_path / "one"), text_collection(tmp_path / "other", 64)
    texts = [Document(f"d{at}", text) for at, text in enumerate(random_texts(10))]
    for item in (source, target):
        item.upsert(texts)
    source.annotations.set_labels([DocumentLabel(text.id, ("a",), "ann") for text in texts])
    copied = carry_most_annotations(source, target)
    if written_since:
        source.annotations.set_judgements([Judgement("q", "d1", 1, "ann")], [])
        source.annotations.set_labels([], [("d3", "ann")])
    readings: list[Annotations] = []
    marks = Annotations.marks

    def counted(self: Annotations, table: Table[Any]) -> dict[tuple[str, ...], bytes]:
        readings.append(self)
        return marks(self, table)

    monkeypatch.setattr(Annotations, "marks", counted)
    carry_annotations(source, target, copied)
    assert readings == [source.annotations] * 2 * written_since
    assert target.annotations.labels() == source.annotations.labels()
    assert target.annotations.judgements() == source.annotations.judgements()


def test_a_snapshot_brings_labels_back(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        made = folder.create_collection("codes", n_bits=16)
        made.upsert(code_documents(CODES))
        assert isinstance(made, Collection)
        made.annotations.set_labels([DocumentLabel("d0", ("a",), "ann", 1, EARLY)])
        snapshot = folder.create_snapshot("codes")
        again = folder.restore_snapshot(folder.snapshots.file(snapshot.id), "again")
        assert isinstance(again, Collection)
        assert again.annotations.labels() == made.annotations.labels()


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"id": "", "label": "a"}, "id"),
        ({"id": "d", "label": ""}, "labels"),
        ({"id": "d"}, "label"),
        ({"id": "d", "label": "a", "labels": ["b"]}, "label"),
        ({"id": "d", "labels": ["a", "a"]}, "labels"),
        ({"id": "d", "label": "a\0"}, "labels"),
        ({"id": "d", "label": "a", "grade": -1}, "grade"),
        ({"id": "d", "label": "a", "grade": True}, "grade"),
        ({"id": "d", "label": "a", "who": "x" * 65}, "who"),
        ({"id": "d", "label": "a", "when": "yesterday"}, "when"),
        ({"id": "d", "label": "a", "when": "2026-01-01"}, "when"),
        ({"id": "d", "label": "a", "colour": "red"}, "colour"),
        ([], "record"),
    ],
)
def test_labels_that_cannot_be_say_which_field(record: object, field: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_label(record)
    assert refused.value.field == field


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@settings(deadline=None)
@given(
    st.lists(texts.map(lambda item: item[:512]), unique=True, max_size=5),
    texts,
    st.integers(0, 1000),
)
def test_records_survive_json(labels: list[str], who: str, grade: int) -> None:
    label = DocumentLabel("d", tuple(labels), who[:64], grade, EARLY)
    assert parse_label(label_to_json(label)) == label
    judgement = Judgement(who, "d", grade, "ann", LATE)
    assert parse_judgement(judgement_to_json(judgement)) == judgement


def test_most_people_decide_and_then_the_latest() -> None:
    records = [
        DocumentLabel("d", ("a",), "ann", 1, LATE),
        DocumentLabel("d", ("b",), "bob", 1, EARLY),
        DocumentLabel("d", ("b",), "cas", 1, EARLY),
        DocumentLabel("e", ("a",), "ann", 1, EARLY),
        DocumentLabel("e", ("b",), "bob", 1, LATE),
        DocumentLabel("f", ("a",), "ann", 0, LATE),
    ]
    assert agreed_labels(records) == {"d": ("b",), "e": ("b",)}
