"""Writes to a collection until killed, and prints each attempt and each acknowledgement.

Run as ``python -m tests.support.faults.endless_writes FOLDER KIND SEED``. KIND is ``ingest``,
``upsert`` or ``compact``. Before each write it prints ``try JSON``, where JSON maps ids to
versions, or to null for a document to delete. Once the write has returned, it prints ``done``. The
id and the version of a document determine its code, its vector and its payload.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from hummingbit.corpus.document import Document, Vector
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import segments
from hummingbit.index.ingestion import ingest
from hummingbit.index.names import INT8
from hummingbit.index.store import store

NAME = "words"
N_BITS = 32
Change = Mapping[str, int | None]


def code_of(id_: str, version: int) -> str:
    """Return a code that no other document or version is likely to have."""
    return f"{random.Random(f'{id_} {version}').getrandbits(N_BITS):08x}"  # noqa: S311


def vector_of(id_: str, version: int) -> Vector:
    """Return a vector of whole numbers that the form of the collection keeps exactly."""
    chance = random.Random(f"{id_} {version} vector")  # noqa: S311
    return np.array([127, *(chance.randint(-127, 127) for _ in range(7))], dtype=np.float32)


def document_of(id_: str, version: int) -> Document:
    """Return the document with this id and version."""
    payload = {"version": version, "filling": "x" * (version % 300)}
    vector = vector_of(id_, version)
    return Document(id=id_, code=code_of(id_, version), vector=vector, payload=payload)


def print_attempt(change: Change) -> None:
    """Print the next attempt."""
    print("try", json.dumps(change), flush=True)


def ingest_endlessly(collection: CollectionBackend, chance: random.Random) -> None:
    """Ingest the same documents over and over, with a higher version each time."""
    for version in itertools.count(chance.randrange(10**6)):
        batches = [{f"i{at + n}": version for n in range(20)} for at in range(0, 400, 20)]

        def documents(batches: list[dict[str, int]] = batches) -> Iterator[Document]:
            for batch in batches:
                print_attempt(batch)
                yield from (document_of(*item) for item in batch.items())

        ingest(collection, documents(), batch_size=20, progress=lambda _: print("done", flush=True))


def upsert_endlessly(collection: CollectionBackend, chance: random.Random) -> None:
    """Upsert a few documents at a time, and now and then delete some."""
    for version in itertools.count(chance.randrange(10**6)):
        ids = {f"u{chance.randrange(200)}" for _ in range(chance.randint(1, 5))}
        if version % 4:
            print_attempt(dict.fromkeys(ids, version))
            collection.upsert([document_of(id_, version) for id_ in ids])
        else:
            print_attempt(dict.fromkeys(ids))
            collection.delete(list(ids))
        print("done", flush=True)


def compact_endlessly(collection: CollectionBackend, chance: random.Random) -> None:
    """Compact by hand and in the background, with writes in between."""
    for version in itertools.count(chance.randrange(10**6)):
        ids = {f"c{chance.randrange(300)}" for _ in range(40)}
        print_attempt(dict.fromkeys(ids, version))
        collection.upsert([document_of(id_, version) for id_ in ids])
        print("done", flush=True)
        print_attempt({})
        collection.compact()
        print("done", flush=True)


KINDS = {"ingest": ingest_endlessly, "upsert": upsert_endlessly, "compact": compact_endlessly}


def main() -> None:
    """Write until killed."""
    folder, kind, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # Small enough for compactions to run all the time.
    segments.MIN_FOLD = 16
    store.BLOCK_ROWS = 32
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection(NAME, n_bits=N_BITS, keep_vectors=INT8)
        KINDS[kind](collection, random.Random(seed))  # noqa: S311


if __name__ == "__main__":
    main()
