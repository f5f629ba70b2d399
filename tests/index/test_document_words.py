from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.index.collection import Collection
from hummingbit.index.passages import Passages
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

KNOWN = ["mineral", "rock", "granite", "river", "boat", "sail", "harbour", "crystal"]


def encoder_of(terms: list[str]) -> Encoder:
    """Return an encoder with a bit for each term."""
    layer = Layer(
        np.eye(len(terms), dtype=np.float32), np.zeros(len(terms), np.float32), "identity"
    )
    thresholds = np.full(len(terms), 0.1, np.float32)
    return Encoder(TextFeatures(terms, weighting="count"), [layer], thresholds, {}, "f" * 64)


def collection_of(folder: Path, texts: list[str], passages: Passages | None = None) -> Collection:
    encoder = encoder_of(KNOWN)
    description = Description(
        "texts", encoder.n_bits, "encoder", encoder.fingerprint, passages=passages
    )
    Store.create(folder / "store.sqlite", description)
    collection = Collection(Store(folder / "store.sqlite", writable=True), encoder)
    collection.set_ranking("hybrid")
    collection.upsert([Document(id=f"d{at}", text=text) for at, text in enumerate(texts)])
    return collection


TEXTS = [
    "the mineral zirconolite is a crystal in rock",
    "zirconolite, a mineral of the granite",
    "the boat has a sail and lies in the harbour",
    "a boat on the river",
    "rock of the harbour",
    "the granite at the river",
]


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric"])
def test_codes_read_a_word_that_only_documents_know_by_the_words_beside_it(
    tmp_path: Path, ranking: str
) -> None:
    collection = collection_of(tmp_path, TEXTS)
    result = collection.search([Query(text="zirconolite")], 2, ranking=ranking)
    assert {hit.id for hit in result.hits[0]} == {"d0", "d1"}
    assert result.queries.terms[0] is not None
    assert not result.queries.terms[0].corrected


def test_the_passage_with_the_word_says_what_it_is_about(tmp_path: Path) -> None:
    long = [f"{TEXTS[2]}. " * 40 + f"{text}." for text in TEXTS[:2]]
    passages = Passages(words=12, sentences=1)
    collection = collection_of(tmp_path, [*long, *TEXTS[2:]], passages)
    encoded = collection.encode_queries([Query(text="zirconolite")])
    bits = np.unpackbits(encoded.codes[0])
    known = {term for term, bit in zip(KNOWN, bits.tolist(), strict=True) if bit}
    assert "mineral" in known
    assert not known & {"boat", "sail"}


def test_a_removed_document_says_nothing(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, TEXTS)
    words = collection.find_words()
    assert words is not None
    collection.delete(["d0"])
    assert len([text for text in words.contexts("zirconolite") if text]) == 1


def test_what_texts_say_of_a_word_is_read_once_and_again_after_a_write(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, TEXTS)
    first, second = collection.find_words(), collection.find_words()
    assert first is not None
    assert second is not None
    assert second.contexts("zirconolite") is first.contexts("zirconolite")
    collection.upsert([Document(id="d0", text="zirconolite is a boat on the river")])
    later = collection.find_words()
    assert later is not None
    assert any("boat" in text for text in later.contexts("zirconolite"))
