from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import CollectionExists, StoreError
from hummingbit.index.ingestion import copy_following, form_for
from hummingbit.index.kept_vectors import (
    pack_vector,
    packed_size,
    unpack_vector,
    unpack_vectors,
)
from hummingbit.index.names import (
    FLOAT16,
    FLOAT32,
    FORMS,
    INT8,
    NONE,
)
from hummingbit.index.transfer import Export, collection_for, export_collection, import_documents
from tests.support.encoders import random_texts, text_encoder, vector_encoder

Floats = npt.NDArray[np.float32]
ANY_FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
VECTORS = arrays(np.float32, st.integers(1, 9), elements=ANY_FLOAT32)
KEPT = [form for form in FORMS if form != NONE]


@given(VECTORS)
def test_a_rounded_vector_is_as_near_as_its_form_says(vector: Floats) -> None:
    largest = float(np.abs(vector).max())
    for form, error in ((FLOAT32, 0.0), (FLOAT16, 2**-11), (INT8, 1 / 253)):
        stored = pack_vector(vector, form)
        assert stored is not None
        assert len(stored) == packed_size(len(vector), form)
        read = unpack_vector(stored, form)
        assert read.dtype == np.float32
        distances = np.abs(read.astype(np.float64) - vector.astype(np.float64))
        assert distances.max() <= error * largest + 2**-149, (form, vector, read)
        assert pack_vector(vector, NONE) is None


@given(VECTORS, st.sampled_from(KEPT))
def test_what_is_read_is_stored_as_the_same_bytes(vector: Floats, form: str) -> None:
    stored = pack_vector(vector, form)
    assert stored is not None
    assert pack_vector(unpack_vector(stored, form), form) == stored


@pytest.mark.parametrize(
    ("form", "stored"), [(FLOAT32, b"12345"), (FLOAT16, b"1234567"), (INT8, b"1234"), (NONE, b"1")]
)
def test_bytes_that_are_no_vector_are_damage(form: str, stored: bytes) -> None:
    with pytest.raises(StoreError, match=f"is damaged; the collection keeps {form}"):
        unpack_vectors([stored], form)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 6)).astype(np.float32)
    write_artifact(tmp_path / "encoders" / "numbers", vector_encoder(), vectors)
    write_artifact(tmp_path / "encoders" / "others", vector_encoder(seed=1), vectors)
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    return tmp_path


def documents(count: int = 30, seed: int = 1) -> list[Document]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, 6)).astype(np.float32)
    texts = random_texts(count)
    return [
        Document(f"d{at}", texts[at] if at % 2 else None, vectors[at], payload={"at": at})
        for at in range(count)
    ]


def held(collection: CollectionBackend) -> dict[str, Any]:
    assert collection.verify().problems == []
    return {
        document.id: (
            document.code,
            document.text,
            None if document.vector is None else document.vector.tobytes(),
        )
        for document in collection.all_documents()
    }


def expected(form: str, collection: CollectionBackend) -> dict[str, Any]:
    """Return what must be held of :func:`documents`, in `form`."""
    assert collection.encoder is not None
    kept = {}
    for document in documents():
        assert document.vector is not None
        stored = pack_vector(document.vector, form)
        vector = None if stored is None else unpack_vector(stored, form).tobytes()
        kept[document.id] = (
            collection.encoder.encode(document.vector[None])[0].tobytes().hex(),
            document.text,
            vector,
        )
    return kept


@pytest.mark.parametrize("form", FORMS)
def test_vectors_outlive_all_that_happens_to_a_collection(folder: Path, form: str) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("v", encoder="numbers", keep_vectors=form)
        collection.upsert(documents(seed=2))
        collection.upsert(documents())
        collection.upsert([Document("gone", vector=np.ones(6, dtype=np.float32))])
        collection.delete(["gone"])
        whole = expected(form, collection)
        assert held(collection) == whole
        collection.compact()
        assert held(collection) == whole
        snapshot = data.create_snapshot("v")
        restored = data.restore_snapshot(data.snapshots.file(snapshot.id), "restored")
        assert (restored.keep_vectors, held(restored)) == (form, whole)
        export_collection(collection, stream := io.BytesIO())
        export = Export(io.BytesIO(stream.getvalue()), "v.jsonl")
        again = collection_for(data, "again", export.header)
        import_documents(again, export)
        assert (again.keep_vectors, held(again)) == (form, whole)
    with DataFolder(folder, writable=False) as data:
        collection = data.collection("v")
        assert collection.stats()["keep_vectors"] == collection.keep_vectors == form
        assert held(collection) == whole


@pytest.mark.parametrize("form", KEPT)
def test_a_reindexing_encodes_what_was_kept(folder: Path, form: str) -> None:
    with DataFolder(folder, writable=True) as data:
        source = data.create_collection("v", encoder="numbers", keep_vectors=form)
        source.upsert(documents())
        keep_vectors = form_for(data, "others", source)
        draft = data.draft_collection("w", encoder="others", keep_vectors=keep_vectors)
        copy_following(source, draft.collection, 0)
        target = draft.publish()
        assert target.keep_vectors == form
        assert {item: held(target)[item][1:] for item in held(target)} == {
            item: held(source)[item][1:] for item in held(source)
        }


def test_only_documents_with_a_text_can_be_reindexed_by_an_encoder_of_texts(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        source = data.create_collection("v", encoder="numbers", keep_vectors=INT8)
        source.upsert([document for document in documents() if document.text is not None])
        assert form_for(data, "words", source) == FLOAT32
        target = data.create_collection("w", encoder="words")
        copy_following(source, target, 0)
        stored = {
            document.id: (document.text, document.vector) for document in target.all_documents()
        }
        assert stored == {
            document.id: (document.text, None)
            for document in documents()
            if document.text is not None
        }
        source.upsert([document for document in documents() if document.text is None])
        with pytest.raises(InputError, match="vector: cannot be encoded"):
            copy_following(source, target, 0)


@pytest.mark.parametrize("form", FORMS)
def test_unchanged_documents_are_known_by_what_is_kept(folder: Path, form: str) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("v", encoder="numbers", keep_vectors=form)
        collection.upsert(documents())
        changed = documents()
        changed[3] = Document("d3", changed[3].text, -np.asarray(changed[3].vector))
        new = collection.new_or_changed(changed)
        assert [document.id for document in new] == (
            ["d3"] if form != NONE else [document.id for document in changed]
        )


def test_settings_that_do_not_fit_are_refused(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        with pytest.raises(InputError, match="keep_vectors: is 'int4'; it must be one of float32"):
            data.create_collection("v", encoder="numbers", keep_vectors="int4")
        with pytest.raises(InputError, match="is 'int8', but the encoder takes texts"):
            data.create_collection("v", encoder="words", keep_vectors=INT8)
        assert data.collections() == {}
        collection = data.create_collection("v", encoder="numbers", keep_vectors=INT8)
        assert data.create_collection("v", encoder="numbers", keep_vectors=INT8) is collection
        with pytest.raises(CollectionExists, match="keep_vectors int8"):
            data.create_collection("v", encoder="numbers")


def test_rounded_vectors_take_less_space(folder: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(400, 6)).astype(np.float32)
    wide = np.tile(vectors, 64)
    write_artifact(folder / "encoders" / "wide", vector_encoder(dimension=384), wide[:40])
    sizes = []
    with DataFolder(folder, writable=True) as data:
        for form in FORMS:
            collection = data.create_collection(form, encoder="wide", keep_vectors=form)
            collection.upsert(Document(f"d{at}", vector=wide[at]) for at in range(400))
            collection.compact()
            sizes.append(collection.bytes_on_disk() / 400)
    float32, float16, int8, none = sizes
    assert float32 - none > 4 * 384 > float16 - none > 2 * 384 > int8 - none > 384


def test_a_store_with_whole_vectors_has_the_format_of_earlier_versions(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        versions = []
        for form in FORMS:
            collection: Any = data.create_collection(form, encoder="numbers", keep_vectors=form)
            with closing(collection.store.read_transaction().__enter__()) as connection:
                query = "SELECT value FROM meta WHERE key = 'format_version'"
                versions += connection.execute(query).fetchone()
    assert versions == [2, 3, 3, 3]
