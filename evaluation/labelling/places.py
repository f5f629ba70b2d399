"""Where the documents of a collection lie, for choosing among them: latent semantic analysis.

Texts are placed along the principal directions of their features (Deerwester et al. 1990), vectors
as they are, and documents that brought their codes by their bits; rows then have unit length. Of a
large collection a sample is placed, and the documents that are labelled, or as many of them.
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
from index.records import StoredDocument

MOST_PLACED = 20_000
DIRECTIONS = 128
KEPT = 4


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Documents, ``float32[N, D]`` places of unit length, and ``int64[N]`` buckets of one code."""

    documents: Sequence[StoredDocument]
    places: Floats
    buckets: Classes


class PlacesCache:
    """The places of the collections that were asked about last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self._cache: OrderedDict[tuple[object, ...], Places] = OrderedDict()

    def of(self, collection: Collection, wanted: Iterable[str] = ()) -> Places:
        """Return the places of a sample and of the documents with the `wanted` ids.

        They are found anew once documents were written, or others are wanted. Who asks meanwhile
        waits, and leaves the processor to others; of more than 20,000 wanted ids some count.

        Raises:
            StoreError: if the collection cannot be read.
        """
        # The same ids count as before, but for a few, when another is labelled.
        some = heapq.nsmallest(MOST_PLACED, wanted, key=lambda id_: crc32(id_.encode()))
        sample = tuple(collection.annotations.sample(MOST_PLACED, some))
        key = (collection.incarnation, sample)
        found = self._known(key)
        if found is None:
            with stepping_aside(), self._finding, unbroken():
                found = self._known(key)
                if found is None:
                    found = place(collection.annotations.documents(sample), collection.encoder)
                    self._keep(key, found)
        return found

    def _known(self, key: tuple[object, ...]) -> Places | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _keep(self, key: tuple[object, ...], found: Places) -> None:
        with self._lock:
            self._cache[key] = found
            while len(self._cache) > KEPT:
                self._cache.popitem(last=False)


def place(documents: Sequence[StoredDocument], encoder: Encoder | None) -> Places:
    """Return where `documents` lie; `encoder` is what made their codes."""
    if not documents:
        nothing = np.empty(0, dtype=np.int64)
        return Places([], np.empty((0, 1), dtype=np.float32), nothing)
    codes = codes_from_hex([one.code for one in documents], 4 * len(documents[0].code))
    _, buckets = np.unique(whole_codes(codes), return_inverse=True)
    found = _features(documents, encoder)
    checkpoint()
    if found is None:
        found = 2 * unpack_codes(codes).astype(np.float32) - 1
    return Places(documents, unit_rows(found), buckets.reshape(-1))


def text_places(rows: Any, others: Any = None) -> Floats:
    """Return where texts lie, ``float32[N, D]``; `rows` are weighted terms, a scipy matrix.

    With `others`, it is where these lie along the directions of `rows`.
    """
    return unit_rows(_directions(rows, others))


def _features(documents: Sequence[StoredDocument], encoder: Encoder | None) -> Floats | None:
    """Return ``float32[N, D]``; None where the encoder does not take what the documents have."""
    if encoder is None:
        return None
    if encoder.kind == "text" and all(one.text is not None for one in documents):
        rows = encoder.features.transform([str(one.text) for one in documents])  # type: ignore[arg-type]
        checkpoint()
        return _directions(rows)
    vectors = [one.vector for one in documents if one.vector is not None]
    if encoder.kind == "text" or len(vectors) < len(documents):
        return None
    found = np.asarray(encoder.features.transform(np.stack(vectors)), dtype=np.float32)  # type: ignore[arg-type]
    centred: Floats = found - found.mean(axis=0)
    return centred


def _directions(rows: Any, others: Any = None) -> Floats:
    """Return where `rows`, or `others`, lie along the principal directions of `rows`."""
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second

    size = min(DIRECTIONS, rows.shape[0] - 1, rows.shape[1] - 1)
    if size < 1:
        return np.asarray((rows if others is None else others).todense(), dtype=np.float32)
    model = TruncatedSVD(size, random_state=0)
    # Of documents that are all alike it divides by a variance of 0, for figures nobody reads.
    with np.errstate(divide="ignore", invalid="ignore"):
        places = model.fit_transform(rows)
    if others is not None:
        places = model.transform(others)
    return np.asarray(places, dtype=np.float32)
