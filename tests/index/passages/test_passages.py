"""Texts that are split into passages, beside a collection whose documents are the passages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.facets import parse_facets
from hummingbit.index.filters import parse_filter
from hummingbit.index.options import (
    Hybrid,
    Rescore,
)
from hummingbit.index.passages import MAX_PASSAGES, Passages, Span, passage_texts, split_to_fit
from hummingbit.index.rankings import RANKINGS
from hummingbit.index.records import Query
from hummingbit.index.search import Hit
from hummingbit.index.transfer import Export, collection_for, export_collection, import_documents
from tests.support.encoders import random_texts, text_encoder

SENTENCES = [f"{text}." for text in random_texts(200, seed=1)]
QUERIES = random_texts(6, seed=2)
PASSAGES = Passages(words=24, overlap=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFolder]:
    path = tmp_path_factory.mktemp("data")
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    with closing(DataFolder(path, writable=True)) as folder:
        yield folder


def create(folder: DataFolder, name: str, passages: Passages | None) -> Collection:
    if name in folder.collections():
        folder.drop_collection(name)
    collection = folder.create_collection(name, encoder="words", passages=passages)
    assert isinstance(collection, Collection)
    return collection


def a_book(rng: random.Random, n_sentences: int) -> str:
    title = " ".join(rng.choice(SENTENCES).split()[:3])
    return f"{title}\n" + " ".join(rng.choices(SENTENCES, k=n_sentences))


def _words(document: Document) -> list[str]:
    return (document.text or "").replace(".", " ").lower().split()


def some_books(seed: int, count: int) -> list[Document]:
    rng = random.Random(seed)  # noqa: S311 - test data
    return [
        Document(f"book {i}", a_book(rng, rng.choice([1, 2, 12, 40])), payload={"n": i % 3})
        for i in range(count)
    ]


def as_documents(books: list[Document]) -> list[Document]:
    """Return a document for each passage of each book, in order."""
    return [
        Document(f"{i}-{book.id}", text, payload=book.payload)
        for book in books
        for i, text in enumerate(passage_texts(book.text or "", PASSAGES.split(book.text or "")))
    ]


def best_of_each(hits: list[Hit]) -> list[tuple[str, int | None, float]]:
    """Return (id of the book, distance, score) of the first passage of each book."""
    best: dict[str, tuple[str, int | None, float]] = {}
    for hit in hits:
        id_ = hit.id.partition("-")[2]
        best.setdefault(id_, (id_, hit.distance, hit.score))
    return list(best.values())


def found(hits: list[Hit]) -> list[tuple[str, int | None, float]]:
    return [(hit.id, hit.distance, hit.score) for hit in hits]


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    replaced=st.sets(st.integers(0, 29), max_size=8),
    deleted=st.sets(st.integers(0, 29), max_size=8),
    filtered=st.booleans(),
    k=st.integers(1, 35),
)
def test_the_best_passage_ranks_a_document(
    folder: DataFolder, *, seed: int, replaced: set[int], deleted: set[int], filtered: bool, k: int
) -> None:
    books = some_books(seed, 30)
    collection, oracle = create(folder, "books", PASSAGES), create(folder, "oracle", None)
    collection.upsert(books)
    changed = [
        Document(books[i].id, f"{books[i].text} {SENTENCES[i]}", payload={"n": 1})
        for i in sorted(replaced)
    ]
    assert collection.upsert(changed).upserted == len(changed)
    ids = [books[i].id for i in sorted(deleted)]
    assert collection.delete(ids).deleted == len(ids)
    again = {book.id for book in changed}
    books = [*(book for book in books if book.id not in again), *changed]
    books = [book for book in books if book.id not in ids]
    oracle.upsert(as_documents(books))
    filter_ = parse_filter({"field": "n", "in": [0, 1]}) if filtered else None
    assert len(collection) == collection.count() == len(books)
    matching = [book for book in books if not filtered or book.payload["n"] in {0, 1}]
    assert collection.count(filter_) == len(matching)
    queries = [Query(text=text) for text in QUERIES]
    for ranking in RANKINGS:
        results = collection.search(queries, k, ranking=ranking, filter=filter_)
        passages = oracle.search(queries, 10_000, ranking=ranking, filter=filter_)
        for hits, of_passages in zip(results.hits, passages.hits, strict=True):
            assert found(hits) == best_of_each(of_passages)[:k]
            stored = [collection.get(hit.id) for hit in hits]
            assert [hit.row for hit in hits] == [item.row for item in stored if item is not None]
    near = collection.search(queries, k, radius=3, filter=filter_)
    passages = oracle.search(queries, 10_000, radius=3, filter=filter_)
    assert [*map(found, near.hits)] == [best_of_each(hits)[:k] for hits in passages.hits]
    assert not collection.verify().problems


@pytest.mark.parametrize("ranking", RANKINGS)
def test_pages_have_every_document_once(folder: DataFolder, ranking: str) -> None:
    collection = create(folder, "books", PASSAGES)
    collection.upsert(some_books(1, 40))
    query = [Query(text=" ".join(QUERIES))]
    whole = collection.search(query, 1000, ranking=ranking).hits[0]
    ids: list[str] = []
    cursor = None
    while True:
        page = collection.search(query, 3, ranking=ranking, cursor=cursor)
        ids += [hit.id for hit in page.hits[0]]
        cursor = page.next_cursors[0]
        if cursor is None:
            break
        # What is written after the first page appears on none.
        collection.upsert([Document("later", " ".join(QUERIES) * 9)])
    assert ids == [hit.id for hit in whole]
    with_offset = collection.search(query, 4, ranking=ranking, offset=5).hits[0]
    collection.delete(["later"])
    assert [hit.id for hit in with_offset if hit.id != "later"] == [
        hit.id for hit in with_offset if hit.id in ids
    ]


def test_a_hit_shows_the_passage_that_ranked_it(folder: DataFolder) -> None:
    collection = create(folder, "books", PASSAGES)
    text = "A title\n" + " ".join(
        [*SENTENCES[:30], "The zebra crossed the road.", *SENTENCES[30:60]]
    )
    collection.upsert([Document("long", text), Document("short", "No zebra here at all.")])
    options: dict[str, Any] = {"highlight": True, "with_passage": True, "ranking": "bm25"}
    hits = {
        hit.id: hit for hit in collection.search([Query(text="zebra road")], 9, **options).hits[0]
    }
    passage, highlight = hits["long"].passage, hits["long"].highlight
    assert passage is not None
    assert highlight is not None
    assert "zebra crossed the road" in text[slice(*passage)]
    assert passage.start <= highlight.start < passage.end
    shown = text[highlight.start : highlight.start + len(highlight.passage)]
    assert highlight.passage == shown
    assert [highlight.passage[slice(*mark)] for mark in highlight.marks] == ["zebra", "road"]
    assert hits["short"].passage is None  # the whole text
    plain = create(folder, "plain", None)
    with pytest.raises(InputError, match="with_passage"):
        plain.search([Query(text="zebra")], 1, with_passage=True)


def test_rescoring_hybrids_and_ids(folder: DataFolder) -> None:
    collection = create(folder, "books", PASSAGES)
    books = some_books(3, 30)
    collection.upsert(books)
    for book in books[:5]:
        # The code of a document is that of its first passage.
        assert collection.search([Query(id=book.id)], 30).hits[0][0].distance == 0
    query = [Query(text=QUERIES[0])]
    choices: list[dict[str, Any]] = [
        {"ranking": "hamming", "rescore": Rescore("bm25", 3)},
        {"ranking": "bm25", "rescore": Rescore("logits")},
        {"hybrid": Hybrid(codes=2.0), "ranking": "hybrid"},
        {"ranking": "hamming", "rerank": True, "with_code": True},
    ]
    for options in choices:
        hits = collection.search(query, 10, **options).hits[0]
        assert len({hit.id for hit in hits}) == len(hits)


def test_a_document_with_its_own_code_is_one_passage(folder: DataFolder) -> None:
    collection = create(folder, "books", PASSAGES)
    collection.upsert([Document("coded", code="00ff00ff"), *some_books(0, 3)])
    assert collection.search([Query(code="00ff00ff")], 1).hits[0][0].id == "coded"
    stored = collection.get("coded")
    assert stored is not None
    assert stored.code == "00ff00ff"
    assert not collection.verify().problems


def test_another_process_an_export_and_a_reopened_store_agree(
    folder: DataFolder,
) -> None:
    collection = create(folder, "books", PASSAGES)
    collection.set_ranking("hybrid")
    books = some_books(5, 40)
    collection.upsert(books[:20])
    queries = [Query(text=text) for text in QUERIES]
    with closing(DataFolder(folder.path, writable=False)) as follower:
        other = follower.collection("books")
        assert isinstance(other, Collection)
        other.search(queries, 5)
        collection.upsert(books[10:])
        collection.delete([books[3].id])
        other.follow()
        assert other.search(queries, 50).hits == collection.search(queries, 50).hits
        assert len(other) == len(collection)
    stream = BytesIO()
    export_collection(collection, stream)
    stream.seek(0)
    export = Export(stream, "export.jsonl")
    copy = collection_for(folder, "copy", export.header)
    import_documents(copy, export)
    stream.seek(0)
    again = import_documents(copy, Export(stream, "export.jsonl"))
    assert again.unchanged == again.documents == len(collection)
    assert copy.passages == PASSAGES
    scores = [found(hits) for hits in copy.search(queries, 50).hits]
    assert scores == [found(hits) for hits in collection.search(queries, 50).hits]
    assert not collection.new_or_changed(books[4:])
    collection.compact()
    assert not collection.verify().problems
    folder.drop_collection("copy")
    snapshot = folder.create_snapshot("books")
    restored = folder.restore_snapshot(folder.snapshots.file(snapshot.id), "restored")
    assert restored.search(queries, 50).hits == collection.search(queries, 50).hits
    assert not restored.verify().problems
    folder.drop_collection("restored")


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.sampled_from("ab. \n!?。中\"'"), max_size=400),
    words=st.integers(8, 30),
    overlap=st.integers(0, 3),
    sentences=st.none() | st.integers(1, 4),
)
def test_passages_cover_a_text(text: str, words: int, overlap: int, sentences: int | None) -> None:
    spans = Passages(words, sentences, overlap).split(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [*spans] == sorted(set(spans))
    covered = {at for start, end in spans for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(text) if not character.isspace())
    assert all(len(text[start:end].split()) <= words for start, end in spans)


def test_neighbouring_passages_share_sentences() -> None:
    text = " ".join(f"Sentence {i} has five words." for i in range(20))
    spans = Passages(words=20, overlap=1).split(text)
    shown = [text[slice(*span)] for span in spans]
    assert shown[0].endswith("Sentence 3 has five words.")
    assert shown[1].startswith("Sentence 3 has five words.")
    assert Passages(words=20, longer_than=100).split(text) == [Span(0, len(text))]
    assert Passages(words=20, overlap=0).split(text)[1].start == text.index("Sentence 4")


@pytest.mark.parametrize("depth", [None, 3])
def test_facets_of_a_search_with_a_filter_count_documents(
    folder: DataFolder, depth: int | None
) -> None:
    collection = create(folder, "books", PASSAGES)
    books = some_books(seed=5, count=30)
    collection.upsert(books)
    word = QUERIES[0].split()[0]
    for n in range(3):
        result = collection.search(
            [Query(text=word)],
            30,
            ranking="hybrid",
            filter=parse_filter({"field": "n", "eq": n}),
            facets=parse_facets(["n"]),
            facet_depth=depth,
        )
        assert result.facets is not None
        (facet,) = result.facets[0]
        having = [b for b in books if b.payload == {"n": n} and word in _words(b)]
        expected = min(depth, 10) if depth else len(having)
        assert having
        assert facet.buckets == [{"value": n, "count": expected}]


def test_a_text_has_a_bounded_number_of_passages() -> None:
    spans = Passages(words=8, sentences=1).split("a.\n" * 100_000)
    assert 1000 < len(spans) <= MAX_PASSAGES


def test_passages_fit_what_a_model_reads() -> None:
    text = "word " * 1000 + "x" * 3000

    def is_too_long(texts: list[str]) -> list[bool]:
        return [len(text) > 100 for text in texts]

    spans = split_to_fit(text, [Span(0, len(text))], is_too_long)
    assert all(len(passage) <= 100 for passage in passage_texts(text, spans))
    assert "".join(text[slice(*span)] for span in spans) == text


@pytest.mark.parametrize(
    "value",
    [3, "always", {"word": 3}, {"words": "3"}, {"words": 1}, {"overlap": -1}, {"words": True}],
)
def test_settings_that_make_no_sense_are_refused(value: object) -> None:
    with pytest.raises(InputError, match="passages"):
        Passages.of(value)


def test_passages_need_an_encoder_of_texts(folder: DataFolder) -> None:
    with pytest.raises(InputError, match="passages: are parts of texts"):
        folder.create_collection("codes", n_bits=32, passages=Passages())
    assert "codes" not in folder.collections()
