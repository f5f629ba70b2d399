"""The index type of some codes: the one that a collection names, or the fastest.

With the kernel, codes are scanned, looked up, or looked up by halves, as a sample of them decides.
Without it, FAISS scans them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.errors import InputError
from hummingbit.index.engines import kernel
from hummingbit.index.engines.compiled import (
    CompiledIndex,
    LookupIndex,
    MultiIndex,
    ScanIndex,
    check_lookup_length,
    check_multi_index_length,
    least_multi_index_work,
)
from hummingbit.index.engines.flat import FlatIndex
from hummingbit.index.engines.kernel import Keys
from hummingbit.index.engines.protocol import Rows, check_codes
from hummingbit.index.names import AUTO, INDEX_TYPES

# Index types, and which one some codes get.

AnyIndex = CompiledIndex | FlatIndex
MAKERS: dict[str, type[CompiledIndex] | type[FlatIndex]] = {
    "scan": ScanIndex,
    "lookup": LookupIndex,
    "halves": MultiIndex,
    "flat": FlatIndex,
}
"""All but the last need the kernel."""
# Fewer codes than this are always scanned.
MIN_INDEXED_CODES = 4096
SAMPLED_QUERIES = 100
NEIGHBOURS = 10
# An index that needs more memory must take at most this share of a scan, estimated on a sample.
MAX_SHARE_OF_SCAN = 0.6


class Choice(NamedTuple):
    """An index of some codes, and the reason for its type, in one sentence."""

    code_index: AnyIndex
    reason: str


def build(codes: Codes, rows: Rows, index_type: str = AUTO) -> Choice:
    """Index `codes`, ``uint8[N, C]``, under ascending `rows`, ``int64[N]``.

    Raises:
        ValueError: if a shape or type is wrong, the rows do not ascend, or the index type does not
            exist or does not support codes of that length.
    """
    check_codes(codes, rows)
    if not codes.shape[1]:
        return Choice(FlatIndex(codes, rows), "There are no codes: words alone rank.")
    _check_type(index_type, codes.shape[1] * 8)
    if kernel.native is None and index_type != FlatIndex.name:
        return Choice(
            FlatIndex(codes, rows), "There is no compiled kernel, so FAISS scans the codes."
        )
    if index_type != AUTO:
        return Choice(MAKERS[index_type](codes, rows), "The collection names this engine.")
    if len(codes) < MIN_INDEXED_CODES:
        reason = f"There are fewer than {MIN_INDEXED_CODES:,} codes, and none are scanned faster."
        return Choice(ScanIndex(codes, rows), reason)
    return _choose(codes, rows)


def check_index_type(index_type: str, n_bits: int) -> None:
    """Raise an InputError unless `index_type` exists and supports codes of `n_bits`."""
    try:
        _check_type(index_type, n_bits)
    except ValueError as error:
        reason = str(error)
        if index_type in INDEX_TYPES:
            reason = f"is {index_type!r}, but {error}"
        raise InputError("engine", reason) from None


def _check_type(index_type: str, n_bits: int) -> None:
    if index_type not in INDEX_TYPES:
        raise ValueError(f"is {index_type[:80]!r}; it must be one of {', '.join(INDEX_TYPES)}")
    if index_type == LookupIndex.name:
        check_lookup_length(n_bits)
    elif index_type == MultiIndex.name:
        check_multi_index_length(n_bits)


def _choose(codes: Codes, rows: Rows) -> Choice:
    n_bits = codes.shape[1] * 8
    if n_bits > 2 * kernel.TABLE_BITS:
        reason = f"Codes of {n_bits} bits are too long for tables."
        return Choice(ScanIndex(codes, rows), reason)
    too_few = f"Too few of {len(codes):,} rows are near each other for lookups to be faster."
    index: LookupIndex | MultiIndex
    if n_bits <= kernel.TABLE_BITS:
        index, n_words = LookupIndex(codes, rows), 1
        holding = f"{len(codes):,} rows hold {index.n_distinct:,} codes"
    else:
        n_words = 2
        scan = ScanIndex(codes, rows)
        # Making two tables takes six times the memory of the codes.
        if _least_multi_index_work(scan, codes) >= MAX_SHARE_OF_SCAN * len(codes) * n_words:
            return Choice(scan, too_few)
        del scan
        index = MultiIndex(codes, rows)
        holding = f"Of {len(codes):,} rows those are near that share about a half of their code"
    work = index.work(_sample(codes), NEIGHBOURS) / n_words
    if work < MAX_SHARE_OF_SCAN * len(codes):
        share = f"a query takes about as long as a scan of {work / len(codes):.1%} of the rows"
        return Choice(index, f"{holding}, and {share}.")
    del index  # frees its tables before the codes are copied for a scan
    return Choice(ScanIndex(codes, rows), too_few)


def _least_multi_index_work(scan: ScanIndex, codes: Codes) -> float:
    """Return the least work of lookups, in words, from the distances of the NEIGHBOURS-th rows."""
    farthest = [some.distances[-1] for some in scan.search(_sample(codes), NEIGHBOURS)]
    return least_multi_index_work(np.array(farthest), codes.shape[1] * 8, len(codes))


def _sample(codes: Codes) -> Codes:
    return codes[np.random.default_rng(0).integers(0, len(codes), SAMPLED_QUERIES)]


# The number of documents at each distance from a query, without ranking them.


Integers = npt.NDArray[np.int64]

# The distances that the kernel computes between two checkpoints, in some ten milliseconds.
COMPARED_AT_ONCE = 1 << 24


class SizedCodes:
    """Distinct codes with the number of documents of each."""

    def __init__(self, codes: Codes, sizes: Integers) -> None:
        """Hold `codes`, ``uint8[N, C]``, and their `sizes`, ``int64[N]``, each below 2**31."""
        self._n_bits = codes.shape[1] * 8
        self._sizes = sizes.astype(np.int32)
        self._words = kernel.words_of(codes)
        self._groups = None if kernel.native is None else kernel.group_codes(self._words)

    def by_distance(self, queries: Codes) -> Integers:
        """Return the number of documents at each distance, ``int64[Q, n_bits + 1]``."""
        counts = np.zeros((len(queries), self._n_bits + 1), dtype=np.int64)
        if not self._n_bits:
            counts[:] = self._sizes.sum()  # empty codes are at distance 0
            return counts
        words = kernel.words_of(queries)
        step = max(1, COMPARED_AT_ONCE // max(1, len(self._words))) if kernel.native else 1
        for start in range(0, len(queries), step):
            some = slice(start, start + step)
            self._add(words[some], counts[some])
        return counts

    def distances(self, queries: Codes) -> Integers:
        """Return the distance of every code from every query, ``int64[Q, N]``."""
        return np.stack([self._distances(query) for query in kernel.words_of(queries)])

    def _distances(self, query: Keys) -> Integers:
        distances = np.zeros(len(self._words), dtype=np.int64)
        for word, of_query in zip(self._words.T, query, strict=True):
            distances += np.bitwise_count(word ^ of_query)
        return distances

    def _add(self, queries: Keys, counts: Integers) -> None:
        if kernel.native is None:
            (query,) = queries
            counts[0] = np.bincount(self._distances(query), self._sizes, counts.shape[1])
            return
        n, n_words = self._words.shape
        some = (len(queries), np.ascontiguousarray(queries), counts.shape[1], counts)
        kernel.native.count(n, n_words, self._groups, self._sizes, *some)
