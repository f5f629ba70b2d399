"""The documents that an encoder learned from, so that no evaluation takes them for a test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Content = str | npt.NDArray[np.float32]
"""A text, or a vector of float32."""
Hashes = npt.NDArray[np.uint64]


def hash_contents(contents: Iterable[Content | None]) -> Hashes:
    """Return 64 bits of BLAKE2b for each content, 0 for None.

    White space is read as single spaces, so a text that was wrapped or trimmed has the same hash.
    """
    return np.array([_hash(content) for content in contents], dtype=np.uint64)


def _hash(content: Content | None) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        raw = " ".join(content.split()).encode("utf-8", "surrogatepass")
    else:
        raw = np.ascontiguousarray(content, dtype="<f4").tobytes()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def learned_bytes(contents: Sequence[Content] | npt.NDArray[np.float32]) -> bytes:
    """Return the record of the contents: their distinct hashes, ascending, ``<u8``."""
    return np.unique(hash_contents(contents)).astype("<u8").tobytes()


@dataclass(frozen=True)
class LearnedDocuments:
    """What an artifact records of the documents that its encoder learned from.

    `hashes` (uint64, ascending) are those of their contents, and `labelled_ids` the ids of those
    whose labels it used. An artifact of an earlier version has only the ids, one that was not
    trained here has neither.
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    labelled_ids: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything is recorded."""
        return bool(len(self.hashes) or self.labelled_ids)

    def contain(
        self,
        contents: Iterable[Content | None],
        stored: Iterable[tuple[str, Content | None]] = (),
    ) -> npt.NDArray[np.bool_]:
        """Tell of each content whether the encoder learned from it, bool[N].

        `stored` are ids and contents of a collection. Those with a labelled id count as learned
        from too, since a collection may have rounded the vectors, and earlier artifacts have no
        hashes.
        """
        hashes = hash_contents(contents)
        by_id = [content for id_, content in stored if id_ in self.labelled_ids]
        is_known: npt.NDArray[np.bool_] = np.isin(hashes, hash_contents(by_id))
        if len(self.hashes):
            rows = np.searchsorted(self.hashes, hashes)
            is_known |= self.hashes[np.minimum(rows, len(self.hashes) - 1)] == hashes
        is_known &= hashes != 0
        return is_known
