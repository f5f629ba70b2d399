from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.errors import EncoderMismatch, StoreError, UnknownDocument
from hummingbit.index.names import MAX_K
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store
from tests.support.collections import code_collection, code_documents
from tests.support.encoders import random_texts, text_encoder, vector_encoder


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with closing(code_collection(tmp_path)) as collection:
        yield collection


def with_encoder(folder: Path, encoder: Encoder) -> Collection:
    texts = random_texts(20)
    vectors = np.random.default_rng(0).normal(size=(20, encoder.dimension or 1))
    examples = texts if encoder.kind == "text" else vectors.astype(np.float32)
    encoder = write_artifact(folder / "encoder", encoder, examples)
    path = folder / "store.sqlite"
    Store.create(path, Description("c", encoder.n_bits, "e", encoder.fingerprint))
    return Collection(Store(path, writable=True), encoder)


def ids_of(collection: Collection, query: Query, k: int = 10, radius: int | None = None) -> str:
    (hits,) = collection.search([query], k, radius).hits
    return " ".join(f"{hit.id}:{hit.distance}" for hit in hits)


def test_documents_are_found_by_their_codes(collection: Collection) -> None:
    result = collection.upsert(code_documents(["0000", "00ff", "0001", "0000"]))
    assert (result.upserted, result.generation) == (4, 1)
    assert ids_of(collection, Query(code="0000")) == "d0:0 d3:0 d2:1 d1:8"
    assert ids_of(collection, Query(code="0000"), k=2) == "d0:0 d3:0"
    assert ids_of(collection, Query(id="d2")) == "d2:0 d0:1 d3:1 d1:7"
    assert ids_of(collection, Query(id="d2"), radius=1) == "d2:0 d0:1 d3:1"
    result_with = collection.search([Query(code="00ff")], 1, with_payload=True)
    assert result_with.generation == 1
    assert result_with.hits[0][0].payload == {"at": 1}
    assert collection.search([Query(code="00ff")], 1).hits[0][0].payload is None


def test_a_replaced_document_counts_as_inserted_last(collection: Collection) -> None:
    collection.upsert(code_documents(["0000", "0000", "0000"]))
    assert collection.upsert(code_documents(["0000"])).generation == 2
    assert ids_of(collection, Query(code="0000")) == "d1:0 d2:0 d0:0"
    assert len(collection) == 3


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_the_last_of_one_id_stays(collection: Collection, batch_size: int) -> None:
    codes = {"a": "0001", "b": "0003", "c": "0007"}
    documents = [Document(id=id_, code=codes[id_]) for id_ in "abacb"]
    sizes: list[int] = []
    result = collection.upsert(documents, batch_size=batch_size, progress=sizes.append)
    assert (result.upserted, sum(sizes)) == (3, 5)
    rows = {id_: stored.row for id_ in codes if (stored := collection.get(id_)) is not None}
    assert sorted(rows, key=rows.__getitem__) == ["a", "c", "b"]
    assert ids_of(collection, Query(code="0000")) == "a:1 b:2 c:3"


def test_deleted_documents_are_gone(collection: Collection) -> None:
    collection.upsert(code_documents(["0000", "0001", "0003"]))
    result = collection.delete(["d1", "missing", "d1"])
    assert (result.deleted, result.generation) == (1, 2)
    assert ids_of(collection, Query(code="0000")) == "d0:0 d2:2"
    assert collection.get("d1") is None
    again = collection.delete(["d1"])
    assert (again.deleted, again.generation) == (0, 2)
    assert collection.upsert([]).generation == 2


def test_an_error_changes_nothing(collection: Collection) -> None:
    collection.upsert(code_documents(["0000"]))

    def documents() -> Iterator[Document]:
        yield from code_documents(["1111"] * 5)
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        collection.upsert(documents(), batch_size=2)
    with pytest.raises(InputError, match=r"code: '0' is not 4 hexadecimal .*\(document 'd1'\)"):
        collection.upsert(code_documents(["2222", "0"]))
    with pytest.raises(ValueError, match="surrogates not allowed"):
        collection.upsert([Document(id="d9", code="0000", payload={"x": "\ud800"})])
    assert (len(collection), collection.generation) == (1, 1)
    assert ids_of(collection, Query(code="0000")) == "d0:0"
    stored = collection.get("d0")
    assert stored is not None
    assert stored.code == "0000"


def test_a_full_disk_changes_nothing(collection: Collection) -> None:
    collection.upsert(code_documents(["0000"]))
    writer = collection.store._writer
    assert writer is not None
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full"):
        collection.upsert(code_documents(["00ff"] * 5000))
    assert (len(collection), collection.generation) == (1, 1)
    assert ids_of(collection, Query(code="0000")) == "d0:0"
    writer.execute("PRAGMA max_page_count = 100000")
    assert collection.upsert(code_documents(["00ff"] * 5000)).generation == 2


@pytest.mark.parametrize("k", [0, -1, MAX_K + 1, 10**9])
def test_k_has_bounds(collection: Collection, k: int) -> None:
    with pytest.raises(InputError, match=f"limit: is {k}; it must be from 1 to {MAX_K}") as caught:
        collection.search([Query(code="0000")], k)
    assert caught.value.field == "limit"


@pytest.mark.parametrize("radius", [-1, 17, 10**9])
def test_radius_has_bounds(collection: Collection, radius: int) -> None:
    with pytest.raises(InputError, match=f"radius: is {radius}; it must be from 0 to 16"):
        collection.search([Query(code="0000")], 1, radius)


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        (Query(), "query", "must have at least one of text, vector, code, id; it has none"),
        (Query(code="0000", id="a"), "query", "has code and id"),
        (Query(text="a"), "text", "the collection has no encoder, and no document has a text"),
        (Query(code="00000"), "code", "'00000' is not 4 hexadecimal digits"),
        (Query(code="000g"), "code", "'000g' is not 4 hexadecimal digits"),
    ],
)
def test_bad_queries(collection: Collection, query: Query, field: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        collection.search([Query(code="0000"), query], 1)
    assert (caught.value.field, caught.value.position) == (field, 1)


def test_an_unknown_id_is_named(collection: Collection) -> None:
    with pytest.raises(UnknownDocument, match="collection 'codes' has no document 'nobody'"):
        collection.search([Query(id="nobody")], 1)


@pytest.mark.parametrize("id_", ["", "\ud800", "a\0b", "x" * 10_000, "' OR 1 --"])
def test_ids_that_no_document_can_have_are_unknown(collection: Collection, id_: str) -> None:
    collection.upsert(code_documents(["0000"]))
    assert collection.get(id_) is None
    assert collection.delete([id_, "d0"]).deleted == 1
    with pytest.raises(UnknownDocument):
        collection.search([Query(id=id_)], 1)


def test_an_empty_collection_finds_nothing(collection: Collection) -> None:
    assert collection.search([Query(code="0000")] * 2, MAX_K).hits == [[], []]
    assert collection.search([], 1).hits == []
    assert collection.stats()["distinct_codes"] == 0


def test_texts_are_encoded(tmp_path: Path) -> None:
    texts = random_texts(50)
    with closing(with_encoder(tmp_path, text_encoder())) as collection:
        collection.upsert([Document(id=f"d{i}", text=text) for i, text in enumerate(texts)])
        codes = text_encoder().encode(texts)
        stored = collection.get("d7")
        assert stored is not None
        assert (stored.text, stored.code) == (texts[7], code_to_hex(codes[7]))
        queries = [
            Query(text=texts[3]),
            Query(id="d4"),
            Query(code=code_to_hex(codes[5])),
        ]
        assert np.array_equal(collection.encode_queries(queries).codes, codes[3:6])
        with pytest.raises(InputError, match=r"vector: .* takes texts") as caught:
            collection.search([Query(vector=np.zeros(3, dtype=np.float32))], 1)
        assert caught.value.field == "vector"
        with pytest.raises(InputError, match="lone surrogate"):
            collection.search([Query(text="\ud800")], 1)
        with pytest.raises(InputError, match=r"at most 1,000,000 are allowed \(document 'long'\)"):
            collection.upsert([Document(id="long", text="x" * 1_000_001)])


def test_vectors_are_encoded(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(size=(20, 6)).astype(np.float32)
    with closing(with_encoder(tmp_path, vector_encoder())) as collection:
        collection.upsert([Document(id=f"d{i}", vector=vector) for i, vector in enumerate(vectors)])
        codes = vector_encoder().encode(vectors)
        found = collection.encode_queries([Query(vector=vector) for vector in vectors]).codes
        assert np.array_equal(found, codes)
        with pytest.raises(InputError, match="vector: has 2 numbers; it must have 6"):
            collection.search([Query(vector=vectors[0, :2])], 1)
        with pytest.raises(InputError, match="every number must be finite"):
            collection.search([Query(vector=vectors[0] * np.float32(np.nan))], 1)
        with pytest.raises(InputError, match=r"has 2 numbers.*\(document 'x'\)"):
            collection.upsert([Document(id="x", vector=vectors[0, :2])])
        with pytest.raises(InputError, match=r"text: .* takes vectors"):
            collection.search([Query(text="a")], 1)


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    with_encoder(tmp_path, text_encoder()).close()
    other = write_artifact(tmp_path / "other", text_encoder(seed=1), random_texts(20))
    with closing(Store(tmp_path / "store.sqlite", writable=True)) as store:
        with pytest.raises(EncoderMismatch, match="was made with encoder 'e', fingerprint"):
            Collection(store, other)
        with pytest.raises(EncoderMismatch):
            Collection(store)


def test_labels_come_with_the_codes_by_row(collection: Collection) -> None:
    collection.upsert(
        [
            Document(id="a", code="0001", labels=("x",)),
            Document(id="b", code="0002", labels=("x", "y")),
            Document(id="c", code="0003", payload={"label": "z", "topic": "t"}),
            Document(id="a", code="0004"),
        ]
    )
    codes, labels = collection.labelled_codes()
    assert codes.tolist() == [[0, 2], [0, 3], [0, 4]]
    assert labels == [("x", "y"), ("z",), ()]
    assert collection.labelled_codes("topic")[1] == [(), ("t",), ()]


def test_stats(collection: Collection) -> None:
    collection.upsert(code_documents(["ffff", "fff0", "ffff"]))
    collection.upsert([Document(id="d9", code="fff0")])
    stats = collection.stats()
    assert stats["bytes_on_disk"] > 0
    expected = {
        "name": "codes",
        "documents": 4,
        "n_bits": 16,
        "encoder": None,
        "encoder_fingerprint": None,
        "generation": 2,
        "distinct_codes": 2,
        "largest_share": 0.5,
        "bit_balance": {"least": 0.5, "mean": 0.875, "most": 1.0},
        "engine_setting": "auto",
        "dead_bits": [*range(12)],
        "problems": [],
    }
    assert expected.items() <= stats.items()
    assert stats["engine_reason"].endswith(".")


class InterruptedStore(Store):
    """A store whose first resolution of rows is preceded by another thread's write."""

    interruption: list[Document]
    collection: Collection

    def read_ids(self, rows):  # type: ignore[no-untyped-def]
        documents, self.interruption = self.interruption, []
        if documents:
            self.collection.upsert(documents)
        return super().read_ids(rows)


def test_a_search_whose_rows_were_replaced_answers_as_of_the_later_generation(
    tmp_path: Path,
) -> None:
    code_collection(tmp_path).close()
    store = InterruptedStore(tmp_path / "store.sqlite", writable=True)
    store.interruption = []
    with closing(Collection(store)) as collection:
        store.collection = collection
        collection.upsert(code_documents(["0000", "0001"]))
        store.interruption = code_documents(["00ff"])
        result = collection.search([Query(code="0000")], 2)
        assert result.generation == 2
        assert [(hit.id, hit.distance) for hit in result.hits[0]] == [("d1", 1), ("d0", 8)]
        # Documents that are added, and not replaced, do not disturb a search.
        store.interruption = code_documents(["0000"], prefix="e")
        result = collection.search([Query(code="0000")], 2)
        assert result.generation == 2
        assert [hit.id for hit in result.hits[0]] == ["d1", "d0"]


def test_an_interrupt_between_commit_and_publication_is_made_up_for(
    collection: Collection,
) -> None:
    collection.upsert(code_documents(["0000", "0001"]))
    stale = collection._published_index.published
    collection.upsert(code_documents(["00ff"]))
    collection._published_index._published = stale
    assert ids_of(collection, Query(code="0000")) == "d1:1 d0:8"
    collection._published_index._published = stale
    collection.upsert(code_documents(["0003"], prefix="e"))
    assert ids_of(collection, Query(code="0000")) == "d1:1 e0:2 d0:8"
    assert collection.generation == 3


def test_a_closed_collection_says_so(tmp_path: Path) -> None:
    collection = code_collection(tmp_path)
    collection.upsert(code_documents(["0000"]))
    collection.close()
    collection.close()
    with pytest.raises(StoreError, match="closed"):
        collection.search([Query(code="0000")], 1)
    with pytest.raises(StoreError, match="closed"):
        collection.upsert(code_documents(["0000"]))
