"""A vector for each document of a collection, from which methods choose what to label next.

Texts are projected on the principal directions of their features, which is latent semantic analysis
(Deerwester et al. 1990). Vectors are centred, and documents that came with codes are represented by
their bits. All rows are scaled to unit length. A large collection is represented by a sample and by
its labelled documents, 20,000 documents at most. Their texts have about 64 million characters at
most; of longer ones, fewer documents are used.
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from encoder.codes import codes_from_hex, unpack_codes, whole_codes
from encoder.encoder import Encoder
from encoder.features import Floats
from evaluation.labelling.classes import Classes
from foundation.arrays import unit_rows
from foundation.slices import checkpoint, stepping_aside, unbroken
from index.collection import Collection
from index.encoded_inputs import batches
from index.records import StoredDocument

MAX_DOCUMENTS = 20_000
MAX_CHARACTERS = 64_000_000
DIRECTIONS = 128
MAX_CACHED = 4
# A text may have a million characters.
READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class DocumentVectors:
    """Documents with their vectors, ``float32[N, D]`` of unit length, and ``int64[N]`` buckets.

    Documents of one code share a bucket.
    """

    documents: Sequence[StoredDocument]
    vectors: Floats
    buckets: Classes


class VectorCache:
    """The vectors of the few collections that were used last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = threading.Lock()
        self._cache: OrderedDict[tuple[object, ...], DocumentVectors] = OrderedDict()

    def of(self, collection: Collection, labelled_ids: Iterable[str] = ()) -> DocumentVectors:
        """Return the vectors of a sample and of the documents with `labelled_ids`.

        They are computed again after a write, or when the labelled documents change. Concurrent
        callers wait for one computation, which yields the processor to searches. Of more than
        20,000 labelled ids, 20,000 are used.

        Raises:
            StoreError: if the collection cannot be read.
        """
        # By a hash of the id, so that one more label hardly changes which ids are used.
        some_ids = heapq.nsmallest(MAX_DOCUMENTS, labelled_ids, key=lambda id_: crc32(id_.encode()))
        sample = tuple(collection.annotations.sample(MAX_DOCUMENTS, some_ids))
        key = (collection.incarnation, sample)
        vectors = self._get(key)
        if vectors is None:
            with stepping_aside(), self._computing, unbroken():
                vectors = self._get(key)
                if vectors is None:
                    documents = _read_documents(collection, sample)
                    vectors = vectorize_documents(documents, collection.encoder)
                    self._remember(key, vectors)
        return vectors

    def _get(self, key: tuple[object, ...]) -> DocumentVectors | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _remember(self, key: tuple[object, ...], vectors: DocumentVectors) -> None:
        with self._lock:
            self._cache[key] = vectors
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)


def _read_documents(collection: Collection, rows: Sequence[int]) -> list[StoredDocument]:
    """Return the documents of `rows`, or of some at random if they have too many characters."""
    documents: list[StoredDocument] = []
    size = 0
    for some in batches(np.random.default_rng(0).permutation(rows).tolist(), READ_AT_ONCE):
        read = collection.annotations.documents(some)
        documents += read
        size += sum(len(one.text or "") for one in read)
        if size > MAX_CHARACTERS:
            break
    return sorted(documents, key=lambda one: one.row)


def vectorize_documents(
    documents: Sequence[StoredDocument], encoder: Encoder | None
) -> DocumentVectors:
    """Return the vectors of `documents`, whose codes `encoder` made."""
    if not documents:
        empty = np.empty(0, dtype=np.int64)
        return DocumentVectors([], np.empty((0, 1), dtype=np.float32), empty)
    codes = codes_from_hex([one.code for one in documents], 4 * len(documents[0].code))
    _, buckets = np.unique(whole_codes(codes), return_inverse=True)
    features = _features(documents, encoder)
    checkpoint()
    if features is None:
        features = 2 * unpack_codes(codes).astype(np.float32) - 1
    return DocumentVectors(documents, unit_rows(features), buckets.reshape(-1))


def text_vectors(rows: Any, others: Any = None) -> Floats:
    """Return LSA vectors of unit length, ``float32[N, D]``, of `rows`, or of `others`.

    `rows` and `others` hold weighted terms, as scipy matrices. The directions are fitted to `rows`.
    """
    return unit_rows(_project(rows, others))


def _features(documents: Sequence[StoredDocument], encoder: Encoder | None) -> Floats | None:
    """Return ``float32[N, D]``; None where the encoder does not accept such documents."""
    # A language model would read every text again.
    if encoder is None or encoder.is_slow:
        return None
    if encoder.kind == "text" and all(one.text is not None for one in documents):
        rows = encoder.features.transform([str(one.text) for one in documents])  # type: ignore[arg-type]
        checkpoint()
        return _project(rows)
    vectors = [one.vector for one in documents if one.vector is not None]
    if encoder.kind == "text" or len(vectors) < len(documents):
        return None
    features = np.asarray(encoder.features.transform(np.stack(vectors)), dtype=np.float32)  # type: ignore[arg-type]
    centred: Floats = features - features.mean(axis=0)
    return centred


def _project(rows: Any, others: Any = None) -> Floats:
    """Project `rows`, or `others`, on the principal directions of `rows`."""
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second

    size = min(DIRECTIONS, rows.shape[0] - 1, rows.shape[1] - 1)
    if size < 1:
        return np.asarray((rows if others is None else others).todense(), dtype=np.float32)
    model = TruncatedSVD(size, random_state=0)
    # If all documents are alike, it divides by a variance of 0 for figures that are not used.
    with np.errstate(divide="ignore", invalid="ignore"):
        projected = model.fit_transform(rows)
    if others is not None:
        projected = model.transform(others)
    return np.asarray(projected, dtype=np.float32)
