from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import copy_following, delete_missing
from tests.support.encoders import random_texts, text_encoder, vector_encoder

TEXTS = random_texts(12)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    for name, encoder in {"small": text_encoder(16), "large": text_encoder(64, seed=1)}.items():
        write_artifact(tmp_path / "encoders" / name, encoder, TEXTS)
    with DataFolder(tmp_path, writable=True) as opened:
        yield opened


def pair(folder: DataFolder, name: str) -> tuple[Collection, Collection]:
    """Return an empty collection of 16 bits and one of 64."""
    made = [folder.create_collection(f"{name}-{item}", encoder=item) for item in ("small", "large")]
    source, target = (item for item in made if isinstance(item, Collection))
    return source, target


def held(collection: Collection) -> list[tuple[object, ...]]:
    return [
        (document.id, document.text, document.payload) for document in collection.all_documents()
    ]


def test_documents_are_encoded_by_the_other_encoder_in_their_order(folder: DataFolder) -> None:
    source, target = pair(folder, "words")
    source.upsert(Document(f"d{at}", text, payload={"at": at}) for at, text in enumerate(TEXTS))
    source.upsert([Document("d3", TEXTS[0], labels=("jam",))])
    batches: list[int] = []
    last = copy_following(source, target, 0, batches.append)
    assert (last, batches) == (13, [12])
    assert held(target) == held(source)
    codes = folder.encoders.load("large").encode(
        [str(document.text) for document in source.all_documents()]
    )
    assert [document.code for document in target.all_documents()] == [
        code_to_hex(code) for code in codes
    ]
    assert copy_following(source, target, 0) == last
    assert held(target) == held(source)


@settings(max_examples=25, deadline=None)
@given(
    before=st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(TEXTS)), max_size=8),
    after=st.lists(
        st.tuples(st.sampled_from("abcde"), st.sampled_from([None, *TEXTS])), max_size=8
    ),
)
def test_what_is_written_and_deleted_meanwhile_is_made_up_for(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, str]],
    after: list[tuple[str, str | None]],
) -> None:
    path = tmp_path_factory.mktemp("data")
    for name, encoder in {"small": text_encoder(16), "large": text_encoder(64, seed=1)}.items():
        write_artifact(path / "encoders" / name, encoder, TEXTS)
    with DataFolder(path, writable=True) as opened:
        source, target = pair(opened, "words")
        for id_, text in before:
            source.upsert([Document(id_, text)])
        last = copy_following(source, target, 0)
        for id_, changed in after:
            if changed is None:
                source.delete([id_])
            else:
                source.upsert([Document(id_, changed)])
        copy_following(source, target, last)
        delete_missing(source, target)
        assert held(target) == held(source)


def test_what_ends_a_copy_leaves_whole_batches_and_the_copy_can_go_on(folder: DataFolder) -> None:
    source, target = pair(folder, "words")
    source.upsert(Document(f"d{at}", TEXTS[at % 12]) for at in range(2500))

    def stop(_: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        copy_following(source, target, 0, stop)
    assert len(target) == 1000
    assert copy_following(source, target, 0) == 2500
    assert held(target) == held(source)


def test_a_document_without_text_cannot_be_encoded_again(
    folder: DataFolder, tmp_path: Path
) -> None:
    _, target = pair(folder, "words")
    codes = folder.create_collection("codes", n_bits=16)
    assert isinstance(codes, Collection)
    codes.upsert([Document("x", code="00ff")])
    with pytest.raises(InputError, match="document 'x' has only a code"):
        copy_following(codes, target, 0)
    vectors_6 = np.ones((8, 6), dtype=np.float32)
    write_artifact(tmp_path / "encoders" / "vectors", vector_encoder(16), vectors_6)
    vectors = folder.create_collection("vectors", encoder="vectors")
    source, _ = pair(folder, "more")
    source.upsert([Document("d", TEXTS[0])])
    with pytest.raises(InputError, match="text: cannot be encoded"):
        copy_following(source, vectors, 0)
    assert len(target) == len(vectors) == 0
