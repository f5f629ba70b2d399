"""The index type of some codes: the one that a collection names, or the fastest.

With the kernel, codes are scanned, looked up, or looked up by halves; without it, FAISS scans them
or a table finds them. A sample of the codes decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import checkpoint
from hummingbit.index.engines import compiled, kernel
from hummingbit.index.engines.compiled import CompiledIndex, ScanIndex
from hummingbit.index.engines.distinct import MAX_DIRECT_TABLE_BITS, DirectIndex, DistinctIndex
from hummingbit.index.engines.flat import FlatIndex, PortableIndex
from hummingbit.index.engines.kernel import Keys
from hummingbit.index.engines.protocol import Rows, check_codes
from hummingbit.index.engines.pruned import PrunedIndex
from hummingbit.index.schema import AUTO

# Index types, and which one some codes get.

AnyIndex = CompiledIndex | PortableIndex


def _scan(codes: Codes, rows: Rows) -> AnyIndex:
    return FlatIndex(codes, rows) if kernel.native is None else ScanIndex(codes, rows)


def _lookup(codes: Codes, rows: Rows) -> AnyIndex:
    compiled.check_lookup_length(codes.shape[1] * 8)
    if kernel.native is None:
        return DistinctIndex(codes, rows)
    return compiled.LookupIndex(codes, rows)


def _multi_index(codes: Codes, rows: Rows) -> AnyIndex:
    compiled.check_multi_index_length(codes.shape[1] * 8)
    if kernel.native is None:
        return FlatIndex(codes, rows)
    return compiled.MultiIndex(codes, rows)


MAKERS: dict[str, Callable[[Codes, Rows], AnyIndex]] = {
    "scan": _scan,
    "lookup": _lookup,
    "halves": _multi_index,
    "direct": DirectIndex,
    "distinct": DistinctIndex,
    "pruned": PrunedIndex,
    "flat": FlatIndex,
}
"""Without the kernel, its index types are replaced by the most similar ones of FAISS."""
INDEX_TYPES = ("auto", *MAKERS)
# Fewer codes than this are always scanned.
MIN_INDEXED_CODES = 4096
SAMPLED_QUERIES = 100
NEIGHBOURS = 10
# The cost of starting a lookup, in codes that FAISS scans in the same time.
LOOKUP_OVERHEAD = 50_000
# An index that needs more memory must take at most this share of a scan, estimated on a sample.
MAX_SHARE_OF_SCAN = 0.6
# Cells are tried if there are many codes and most would be scanned, and must gain more.
MIN_DISTINCT_FOR_CELLS = 2**21
# Codes too long for the kernel's tables must repeat so often for FAISS to scan the distinct ones.
MIN_REPETITIONS = 8
MIN_SHARE_FOR_CELLS = 0.5
MAX_SHARE_WITH_CELLS = 0.35


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
    if index_type not in INDEX_TYPES:
        raise ValueError(f"engine {_unknown_type(index_type)}")
    check_codes(codes, rows)
    if not codes.shape[1]:
        return Choice(FlatIndex(codes, rows), "There are no codes: words alone rank.")
    if index_type != AUTO:
        index = MAKERS[index_type](codes, rows)
        missing = f"The collection names the engine {index_type}, but there is no compiled kernel."
        reason = "The collection names this engine." if index.name == index_type else missing
        return Choice(index, reason)
    if len(codes) < MIN_INDEXED_CODES:
        reason = f"There are fewer than {MIN_INDEXED_CODES:,} codes, and none are scanned faster."
        return Choice(_scan(codes, rows), reason)
    return (
        _choose_with_faiss(codes, rows)
        if kernel.native is None
        else _choose_with_kernel(codes, rows)
    )


def check_index_type(index_type: str, n_bits: int) -> None:
    """Raise an InputError unless `index_type` exists and supports codes of `n_bits`."""
    if index_type == AUTO:
        return
    if index_type not in INDEX_TYPES:
        raise InputError("engine", _unknown_type(index_type))
    try:
        # Each index checks the length of the codes itself.
        build(np.empty((0, n_bits // 8), dtype=np.uint8), np.empty(0, dtype=np.int64), index_type)
    except ValueError as error:
        raise InputError("engine", f"is {index_type!r}, but {error}") from None


def _unknown_type(index_type: str) -> str:
    return f"is {index_type[:80]!r}; it must be one of {', '.join(INDEX_TYPES)}"


def _choose_with_kernel(codes: Codes, rows: Rows) -> Choice:
    n_bits = codes.shape[1] * 8
    if n_bits > 2 * kernel.TABLE_BITS:
        return _choose_for_long_codes(codes, rows)
    too_few = f"Too few of {len(codes):,} rows are near each other for lookups to be faster."
    index: compiled.LookupIndex | compiled.MultiIndex
    if n_bits <= kernel.TABLE_BITS:
        index, n_words = compiled.LookupIndex(codes, rows), 1
        holding = f"{len(codes):,} rows hold {index.n_distinct:,} codes"
    else:
        n_words = 2
        scan = ScanIndex(codes, rows)
        # Making two tables takes six times the memory of the codes.
        if _least_multi_index_work(scan, codes) >= MAX_SHARE_OF_SCAN * len(codes) * n_words:
            return Choice(scan, too_few)
        del scan
        index = compiled.MultiIndex(codes, rows)
        holding = f"Of {len(codes):,} rows those are near that share about a half of their code"
    work = index.work(_sample(codes), NEIGHBOURS) / n_words
    if work < MAX_SHARE_OF_SCAN * len(codes):
        return Choice(index, f"{holding}, and {_relative_work(work, codes)}.")
    del index  # frees its tables before the codes are copied for a scan
    return Choice(ScanIndex(codes, rows), too_few)


def _least_multi_index_work(scan: ScanIndex, codes: Codes) -> float:
    """Return the least work of lookups, in words, from the distances of the NEIGHBOURS-th rows."""
    farthest = [some.distances[-1] for some in scan.search(_sample(codes), NEIGHBOURS)]
    return compiled.least_multi_index_work(np.array(farthest), codes.shape[1] * 8, len(codes))


def _choose_for_long_codes(codes: Codes, rows: Rows) -> Choice:
    n_bits = codes.shape[1] * 8
    n_distinct = kernel.count_distinct(codes)
    if n_distinct * MIN_REPETITIONS < len(codes):
        reason = f"{len(codes):,} rows hold {n_distinct:,} codes, which are scanned once each."
        return Choice(DistinctIndex(codes, rows), reason)
    reason = f"{len(codes):,} rows hold {n_distinct:,} codes of {n_bits} bits, too long for tables."
    return Choice(ScanIndex(codes, rows), reason)


def _choose_with_faiss(codes: Codes, rows: Rows) -> Choice:
    n_bits = codes.shape[1] * 8
    if n_bits <= MAX_DIRECT_TABLE_BITS:
        return Choice(DirectIndex(codes, rows), f"All codes of {n_bits} bits fit in a table.")
    distinct = DistinctIndex(codes, rows)
    sample = _sample(codes)
    work = LOOKUP_OVERHEAD + distinct.work(sample, NEIGHBOURS)
    holding = f"{len(codes):,} rows hold {distinct.n_distinct:,} codes"
    if distinct.n_distinct >= MIN_DISTINCT_FOR_CELLS and work > MIN_SHARE_FOR_CELLS * len(codes):
        pruned = PrunedIndex(codes, rows)
        less = pruned.work(sample, NEIGHBOURS)
        if less < MAX_SHARE_WITH_CELLS * len(codes):
            return Choice(
                pruned, f"{holding} that lie in cells, and {_relative_work(less, codes)}."
            )
    if work < MAX_SHARE_OF_SCAN * len(codes):
        return Choice(distinct, f"{holding}, and {_relative_work(work, codes)}.")
    scattered = "too many or too scattered for lookups to be faster"
    return Choice(FlatIndex(codes, rows), f"{holding}, {scattered}.")


def _sample(codes: Codes) -> Codes:
    return codes[np.random.default_rng(0).integers(0, len(codes), SAMPLED_QUERIES)]


def _relative_work(work: float, codes: Codes) -> str:
    return f"a query takes about as long as a scan of {work / len(codes):.1%} of the rows"


# The number of documents at each distance from a query, without ranking them.


Counts = npt.NDArray[np.int64]

# The distances that the kernel computes between two checkpoints, in some ten milliseconds.
COMPARED_AT_ONCE = 1 << 24


class SizedCodes:
    """Distinct codes with the number of documents of each."""

    def __init__(self, codes: Codes, sizes: Counts) -> None:
        """Hold `codes`, ``uint8[N, C]``, and their `sizes`, ``int64[N]``, each below 2**31."""
        self._n_bits = codes.shape[1] * 8
        self._sizes = sizes.astype(np.int32)
        self._words = kernel.words_of(codes)
        self._groups = None if kernel.native is None else kernel.group_codes(self._words)

    def by_distance(self, queries: Codes) -> Counts:
        """Return the number of documents at each distance, ``int64[Q, n_bits + 1]``."""
        counts = np.zeros((len(queries), self._n_bits + 1), dtype=np.int64)
        if not self._n_bits:
            counts[:] = self._sizes.sum()  # empty codes are at distance 0
            return counts
        words = kernel.words_of(queries)
        step = max(1, COMPARED_AT_ONCE // max(1, len(self._words))) if kernel.native else 1
        for start in range(0, len(queries), step):
            checkpoint()
            some = slice(start, start + step)
            self._add(words[some], counts[some])
        return counts

    def distances(self, queries: Codes) -> Counts:
        """Return the distance of every code from every query, ``int64[Q, N]``."""
        return np.stack([self._distances(query) for query in kernel.words_of(queries)])

    def _distances(self, query: Keys) -> Counts:
        distances = np.zeros(len(self._words), dtype=np.int64)
        for word, of_query in zip(self._words.T, query, strict=True):
            distances += np.bitwise_count(word ^ of_query)
        return distances

    def _add(self, queries: Keys, counts: Counts) -> None:
        if kernel.native is None:
            (query,) = queries
            counts[0] = np.bincount(self._distances(query), self._sizes, counts.shape[1])
            return
        n, n_words = self._words.shape
        some = (len(queries), np.ascontiguousarray(queries), counts.shape[1], counts)
        kernel.native.count(n, n_words, self._groups, self._sizes, *some)
