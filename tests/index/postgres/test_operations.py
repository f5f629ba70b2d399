"""Every operation of the interface, on PostgreSQL and in the data folder, as the docs list it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.evaluation.rankings import RelevanceSettings
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filters import parse_filter
from hummingbit.index.operations import count_values
from hummingbit.index.options import SearchOptions
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.store.annotations import DocumentLabel, Judgement
from hummingbit.index.transfer import Export, collection_for, export_collection, import_documents
from hummingbit.local import LocalWorkbench
from tests.support.corpora import topic_documents
from tests.support.encoders import random_texts, text_encoder

ROOT = Path(__file__).parents[3]
NAME = "compared"
FOOD = parse_filter({"field": "label", "eq": "food"})
NEAR = parse_filter({"and": [{"field": "n", "gte": 10}, {"field": "label", "in": ["sea", "food"]}]})
QUERY = "garlic bread with a zqxword and the tide"
WHEN = "2026-01-31T12:00:00+00:00"
RANKINGS = ("hamming", "asymmetric", "bm25", "hybrid")

Folder = DataFolder
Operation = Callable[[DataFolder, Any], object]


def documents() -> list[Document]:
    return [
        Document(
            id=document.id,
            text=f"{document.text} wort{at % 40}",
            payload={"n": at, "label": document.labels[0]},
        )
        for at, document in enumerate(topic_documents(400))
    ]


def hits_of(result: Any) -> object:
    pages = [[(hit.id, hit.row, hit.score, hit.distance) for hit in hits] for hits in result.hits]
    return pages, result.generation


def search(collection: Any, **options: Any) -> object:
    return [
        hits_of(collection.search([Query(text=QUERY)], 10, ranking=ranking, **options))
        for ranking in RANKINGS
    ]


def scrolled(collection: Any, **options: Any) -> object:
    first = collection.scroll(60, **options)
    cursor = first.next_cursor  # it names the collection's incarnation, which is random
    assert cursor is not None
    return first.documents, collection.scroll(60, cursor, **options).documents


def held(collection: Any) -> object:
    with collection.holding_writes():
        return collection.generation


def coded(payloads: Any) -> object:
    return payloads.codes.tolist(), payloads.payloads, payloads.given_labels


def exported(collection: Any) -> bytes:
    stream = io.BytesIO()
    export_collection(collection, stream)
    return stream.getvalue()


def there_and_back(folder: DataFolder, collection: Any) -> object:
    """Import an export as another collection, and export that."""
    first = exported(collection)
    export = Export(io.BytesIO(first), "export")
    other = collection_for(folder, "moved", export.header)
    import_documents(other, export)
    second = exported(other)
    folder.drop_collection("moved")
    return second.replace(b'"moved"', b'"compared"') == first, len(first)


def labelled(collection: Any) -> object:
    collection.annotations.set_labels([DocumentLabel("doc-3", ("a", "b"), "ann", 1, WHEN)])
    collection.annotations.set_judgements([Judgement("sea", "doc-4", 2, "bob", WHEN)])
    return collection.annotations.labels(), collection.annotations.judgements()


def reindexed(folder: DataFolder, collection: Any) -> object:
    count = folder.reindex(NAME, "other", "again", "alias", None)
    found = search(folder.collection("alias"))
    folder.drop_collection("again")
    return count, found, dict(folder.aliases())


def snapshotted(folder: DataFolder, collection: Any) -> object:
    snapshot = folder.create_snapshot(NAME)
    restored = folder.restore_snapshot(snapshot.id, "restored")
    same = exported(restored).replace(b'"restored"', b'"compared"') == exported(collection)
    rows = [document.row for document in restored.all_documents()]
    verified = restored.verify()
    folder.drop_collection("restored")
    return same, rows, verified


def evaluated(folder: DataFolder, collection: Any) -> object:
    queries = [
        Document(id=f"q{at}", text=document.text, labels=document.labels)
        for at, document in enumerate(topic_documents(9, 7))
    ]
    job = LocalWorkbench(folder).evaluate(collection.name, queries, None, RelevanceSettings())
    return [(figures.measure, figures.served) for figures in job.report.metrics]


def expired(folder: DataFolder, collection: Any) -> object:
    gone = {"expires_at": "2020-01-01T00:00:00Z"}
    collection.upsert([Document(id="gone", text="garlic", payload=gone)])
    before = collection.get("gone"), collection.count()
    folder.remove_expired()
    return before, collection.verify()


OPERATIONS: dict[str, Operation] = {
    "upsert": lambda _, on: on.upsert(documents()[:390]),
    "upsert_encoded": lambda _, on: on.upsert_encoded(
        documents()[390:], np.arange(40, dtype=np.uint8).reshape(10, 4)
    ),
    "ingest": lambda _, on: on.ingest(iter(documents()[380:])).unchanged,
    "new_or_changed": lambda _, on: [document.id for document in on.new_or_changed(documents())],
    "get": lambda _, on: on.get("doc-7"),
    "get_many": lambda _, on: [*on.get_many(["doc-1", "nobody", "doc-2"])],
    "existing_ids": lambda _, on: sorted(on.existing_ids(["doc-1", "nobody"])),
    "ids_within": lambda _, on: sorted(on.ids_within(["doc-1", "doc-2", "doc-3"], FOOD)),
    "count": lambda _, on: (on.count(), on.count(FOOD), on.count(NEAR), len(on)),
    "scroll": lambda _, on: (scrolled(on), scrolled(on, filter=NEAR)),
    "sort": lambda _, on: scrolled(on, sort=parse_sort(["label", "n:desc"])),
    "documents_after": lambda _, on: on.documents_after(390, 5),
    "all_documents": lambda _, on: on.all_documents(),
    "coded_payloads": lambda _, on: coded(on.coded_payloads(with_given_labels=True)),
    "labelled_codes": lambda _, on: on.labelled_codes("label")[1],
    "search": lambda _, on: search(on),
    "filters": lambda _, on: (search(on, filter=FOOD), search(on, filter=NEAR)),
    "pages": lambda _, on: search(on, offset=7),
    "find": lambda _, on: hits_of(on.find([Query(id="doc-5")], SearchOptions(4))),
    "answer": lambda _, on: {**on.answer(Query(text=QUERY), {"limit": 5}), "took_ms": 0},
    "groups": lambda _, on: search(on, group_by="label", group_size=2),
    "facets": lambda _, on: (
        on.ask("facets", {"facets": ["label"]}),
        on.search([Query(text=QUERY)], 3, facets=tuple(parse_facets(["label"]))).facets,
    ),
    "tabulate": lambda _, on: count_values(on, parse_facets(["label"]), FOOD),
    "duplicates": lambda _, on: search(on, collapse_duplicates=2),
    "diversity": lambda _, on: search(on, diversity=0.5),
    "explain_no_hits": lambda _, on: on.explain_no_hits(parse_filter({"field": "x", "eq": 1})),
    "encode_queries": lambda _, on: on.encode_queries([Query(text=QUERY)]).codes.tolist(),
    "recommend": lambda _, on: hits_of(
        on.recommend([Query(id="doc-3")], [Query(id="doc-4")], SearchOptions(5), "best_score")
    ),
    "recommendation": lambda _, on: {
        **on.recommendation([Query(id="doc-3")], [], {"limit": 3}, "average_vector"),
        "took_ms": 0,
    },
    "complete": lambda _, on: on.complete("gar", 5),
    "within": lambda _, on: (search(on.within(FOOD)), on.within(FOOD).complete("ga", 3)),
    "called": lambda _, on: on.called("alias").name,
    "delete": lambda _, on: on.delete(["doc-380", "nobody"]),
    "delete_where": lambda _, on: on.delete_where(parse_filter({"field": "n", "gte": 395})),
    "update_payloads": lambda _, on: on.update_payloads(
        [PayloadUpdate.of({"filter": {"field": "label", "eq": "sea"}, "set": {"seen": [1.5, "x"]}})]
    ),
    "payloads_changed_since": lambda _, on: len(on.payloads_changed_since(on.generation - 1)),
    "annotations": lambda _, on: labelled(on),
    "set_ranking": lambda _, on: (on.set_ranking("bm25"), on.ranking, on.set_ranking("hybrid")),
    "set_hybrid_weight": lambda _, on: (on.set_hybrid_weight(0.7), on.own_hybrid_weight),
    "set_language": lambda _, on: (on.set_language("german"), on.language, search(on)),
    "set_indexed_fields": lambda _, on: (on.set_indexed_fields(["n", "x"]), on.indexed_fields),
    "remember_field_types": lambda _, on: (
        on.remember_field_types({"n": "number"}),
        on.field_types,
    ),
    "holding_writes": lambda _, on: held(on),
    "set_bookmark": lambda _, on: (on.set_bookmark("k", "v"), on.read_bookmark("k")),
    "knows_filter": lambda _, on: on.knows_filter(FOOD),
    "is_built_for": lambda _, on: on.is_built_for("hybrid"),
    "evaluate": evaluated,
    "alias": lambda folder, _: dict(folder.change_aliases([AddAlias("alias", NAME)])),
    "reindex": reindexed,
    "export, import": there_and_back,
    "snapshots": snapshotted,
    "expiry": expired,
    "compact": lambda _, on: (on.compact(), search(on)),
    "verify": lambda _, on: on.verify(),
    "reading": lambda _, on: on.reading().__enter__() is None,
    "prepare_fork": lambda folder, _: folder.prepare_fork(),
    "stats": lambda _, on: {**on.stats(), "bytes_on_disk": on.bytes_on_disk() > 0},
}
"""In this order; each sees what those before it did."""
PROPERTIES = {
    "encoder_fingerprint",
    "encoder_kind",
    "encoder_name",
    "engine_setting",
    "generation",
    "hybrid_weight",
    "is_read_by_model",
    "keep_vectors",
    "last_row",
    "n_bits",
    "name",
    "passages",
}
"""They are compared at the end."""
COVERED_BY = {
    "ask": "facets",
    "bytes_on_disk": "stats",
    "read_bookmark": "set_bookmark",
    "ranking": "set_ranking",
    "own_hybrid_weight": "set_hybrid_weight",
    "language": "set_language",
    "indexed_fields": "set_indexed_fields",
    "field_types": "remember_field_types",
}
# They cannot be compared, or every test uses them.
OTHERS = {"encoder", "close", "compactions"}


def made(folder: DataFolder) -> CollectionBackend:
    return folder.create_collection(NAME, encoder="plain")


@pytest.fixture(scope="module")
def both(
    postgres_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DataFolder, DataFolder]]:
    from hummingbit.index.postgres.folder import PostgresFolder  # noqa: PLC0415 - psycopg may be missing

    paths = [tmp_path_factory.mktemp(name) for name in ("local", "postgres")]
    for path in paths:
        write_artifact(path / "encoders" / "plain", text_encoder(), random_texts(50))
        write_artifact(path / "encoders" / "other", text_encoder(64), random_texts(50))
    uri = postgres_server.new_database()
    with (
        DataFolder(paths[0], writable=True) as local,
        PostgresFolder(paths[1], uri, writable=True) as remote,
    ):
        yield local, remote


def test_the_table_of_operations_is_true(both: tuple[DataFolder, DataFolder]) -> None:
    members = {name for name in dir(CollectionBackend) if not name.startswith("_")}
    assert members <= OPERATIONS.keys() | PROPERTIES | COVERED_BY.keys() | OTHERS
    collections = [made(folder) for folder in both]
    outcomes: dict[str, str] = {}
    for name, operation in OPERATIONS.items():
        results = []
        for folder, collection in zip(both, collections, strict=True):
            try:
                results.append(repr(operation(folder, collection)))
            except HummingbitError as error:
                results.append(f"refused: {error}")
        here, there = results
        assert not here.startswith("refused"), here
        is_refused = there.startswith("refused")
        outcomes[name] = "refused" if is_refused else "same" if here == there else "differs"
        if outcomes[name] == "differs":
            print(f"{name}:\n  {here[:600]}\n  {there[:600]}")
    for name in PROPERTIES:
        here, there = (repr(getattr(collection, name)) for collection in collections)
        outcomes[name] = "same" if here == there else "differs"
    documented = dict(documented_outcomes())
    assert {name: outcomes[name] for name in OPERATIONS} == {
        name: documented.get(name) for name in OPERATIONS
    }
    assert {*outcomes.values()} <= {"same", "refused"}


def documented_outcomes() -> Iterator[tuple[str, str]]:
    """Yield each operation and its outcome in the table of docs/scaling.md."""
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    for names, outcome in re.findall(r"^\| [^|]+ \| (`[^|]+) \| (same|refused)", text, re.M):
        for name in re.findall(r"`([^`]+)`", names):
            yield name, outcome
