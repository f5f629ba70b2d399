"""Near-duplicates in a collection: documents whose codes, and optionally texts, hardly differ.

Two documents are near-duplicates if their codes differ in at most `radius` bits and, optionally,
the Jaccard similarity of their sets of shingles, which are runs of a few neighbouring terms, is
high enough. Near-duplicates connect documents to clusters, so two documents of one cluster may
differ more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.codes import Codes, distinct_codes, hamming_distance
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.encoding import WITHOUT_CODES
from hummingbit.index.engines.kernel import words_of
from hummingbit.index.engines.self_join import Integers, compares_all_pairs, pairs_within

Tell = Callable[[str, int, int], object]
"""Called with the name of a step, the amount that is done, and the total."""

MAX_SHINGLE = 100
# Limits the memory of the edges that are connected at once.
EDGES_AT_ONCE = 1 << 21
# Comparisons of two codes between two checkpoints.
COMPARED_AT_ONCE = 1 << 21
ROWS_AT_ONCE = 4096
# Limits the memory of the shingles that pairs of texts share: thousands may begin alike.
SHARED_AT_ONCE = 1 << 20
PAGE = 1000


@dataclass(frozen=True, slots=True)
class DuplicateCriteria:
    """When two documents are near-duplicates."""

    radius: int
    confirm: float | None = None
    """The least Jaccard similarity of the shingles of their texts; None does not compare texts."""
    shingle: int = 5
    """The number of terms of a shingle. A shorter text is one shingle."""

    def check(self, n_bits: int) -> None:
        """Raise InputError unless the criteria are valid for codes of `n_bits` bits."""
        if n_bits == 0:
            raise InputError("collection", f"has no near-duplicates: {WITHOUT_CODES}")
        if not 0 <= self.radius <= n_bits:
            raise InputError("radius", f"is {self.radius}; it must be from 0 to {n_bits}")
        if self.confirm is not None and not 0 < self.confirm <= 1:
            raise InputError("confirm", f"is {self.confirm}; it must be above 0 and at most 1")
        if not 1 <= self.shingle <= MAX_SHINGLE:
            raise InputError("shingle", f"is {self.shingle}; it must be from 1 to {MAX_SHINGLE}")


def find_duplicates(
    collection: CollectionBackend, criteria: DuplicateCriteria, tell: Tell | None = None
) -> Iterator[list[str]]:
    """Yield the ids of each cluster of near-duplicates, in the order of insertion, oldest first.

    Clusters are ordered by their oldest documents. The collection is read in pages, so documents
    that are written meanwhile may be missing. `tell` hears how many codes are read and compared.

    Raises:
        InputError: if `criteria` are not valid for the collection.
    """
    criteria.check(collection.n_bits)
    tell = tell or (lambda *_: None)
    begin_stage(f"reading {len(collection):,} codes")
    ids, codes = _read(collection, tell)
    begin_stage(f"comparing {len(codes):,} codes")
    clusters = near_codes(codes, criteria.radius, tell)
    begin_stage(f"comparing the texts of {len(clusters):,} clusters of codes")
    for cluster in clusters:
        check_cancelled()
        for members in _confirm(collection, cluster, codes, ids, criteria):
            yield [ids[position] for position in members.tolist()]


def near_codes(codes: Codes, radius: int, tell: Tell | None = None) -> list[Integers]:
    """Return the clusters of `codes`, ``uint8[N, C]``, that pairs within `radius` connect.

    A cluster has the ascending positions of two or more codes; clusters are ordered by the first.
    `tell` hears how far the comparison is.
    """
    tell = tell or (lambda *_: None)
    distinct, code_of = distinct_codes(codes)
    if compares_all_pairs(len(distinct), codes.shape[1] * 8, radius):
        return _clusters(_connect_codes(distinct, radius, tell)[code_of])
    labels = np.arange(len(distinct))
    edges: list[tuple[Integers, Integers]] = []
    waiting = 0
    for pairs in pairs_within(distinct, radius, lambda *done: tell("comparing", *done)):
        edges.append((pairs.first, pairs.second))
        waiting += len(pairs.first)
        if waiting >= EDGES_AT_ONCE:
            labels, edges, waiting = _connect(labels, edges), [], 0
    return _clusters(_connect(labels, edges)[code_of])


def _connect_codes(codes: Codes, radius: int, tell: Tell) -> Integers:
    """Return labels of distinct codes, which are equal if pairs within `radius` connect the codes.

    Each code that is found is compared with those that are not found yet. So with a large radius,
    within which nearly all pairs lie, there are few comparisons, and pairs take no memory.
    """
    words = words_of(codes)
    labels = np.empty(len(codes), dtype=np.int64)
    left = np.arange(len(codes))
    columns = [np.ascontiguousarray(column) for column in words.T]
    waiting: list[int] = []
    compared = label = 0
    while len(left):
        if waiting:
            current = waiting.pop()
        else:
            current, label = int(left[0]), label + 1
            labels[current] = label
            left, columns = left[1:], [column[1:] for column in columns]
        compared += len(left) + 1
        if compared >= COMPARED_AT_ONCE:
            compared = 0
            check_cancelled()
            tell("comparing", len(codes) - len(left), len(codes))
        distances = np.zeros(len(left), dtype=np.uint16)
        for column, word in zip(columns, words[current], strict=True):
            distances += np.bitwise_count(column ^ word)
        near = distances <= radius
        if near.any():
            labels[left[near]] = label
            waiting += left[near].tolist()
            left, columns = left[~near], [column[~near] for column in columns]
    return labels


def near_texts(texts: Sequence[str], codes: Codes, criteria: DuplicateCriteria) -> list[Integers]:
    """Return the clusters of `texts` with similar shingles and `codes`, ``uint8[N, C]``.

    They have the form and order of :func:`near_codes`.
    """
    if not texts:
        return []
    # Equal texts with equal codes are compared once.
    positions: dict[tuple[str, bytes], int] = {}
    both = zip(texts, codes, strict=True)
    same = np.array(
        [positions.setdefault((text, code.tobytes()), len(positions)) for text, code in both]
    )
    _, first = np.unique(same, return_index=True)
    labels = _connect_texts([text for text, _ in positions], codes[first], criteria)
    return _clusters(labels[same])


def _connect_texts(texts: Sequence[str], codes: Codes, criteria: DuplicateCriteria) -> Integers:
    """Return labels of texts, which are equal if near-duplicates connect the texts."""
    least = criteria.confirm or 0.0
    shingles = _shingle_matrix(texts, criteria.shingle)
    sizes = np.diff(shingles.indptr)
    transposed = shingles.T.tocsr()
    labels = np.arange(len(texts))
    # The pairs of a text's shingles and the texts that have them, added up over the rows.
    pairs = np.cumsum(shingles @ np.diff(transposed.indptr).astype(np.int64))
    end = 0
    while end < len(texts):
        check_cancelled()
        start = end
        most = (int(pairs[start - 1]) if start else 0) + SHARED_AT_ONCE
        end = int(np.searchsorted(pairs, most, side="right"))
        end = min(max(end, start + 1), start + ROWS_AT_ONCE)
        shared = (shingles[start:end] @ transposed).tocoo()
        first, second, both = shared.coords[0] + start, shared.coords[1], shared.data
        alike = both / (sizes[first] + sizes[second] - both) >= least
        first, second = first[alike], second[alike]
        near = hamming_distance(codes[first], codes[second]) <= criteria.radius
        labels = _connect(labels, [(first[near], second[near])])
    return labels


def shingles_of(text: str, length: int) -> set[tuple[str, ...]]:
    """Return the runs of `length` neighbouring terms of `text`; a shorter text is one run."""
    terms = VISIBLE.terms(text)
    if len(terms) <= length:
        return {tuple(terms)}
    return set(zip(*(terms[start:] for start in range(length)), strict=False))


def _read(collection: CollectionBackend, tell: Tell) -> tuple[list[str], Codes]:
    ids: list[str] = []
    codes = bytearray()
    row = 0
    while page := collection.documents_after(row, PAGE):
        check_cancelled()
        ids += [document.id for document in page]
        codes += bytes.fromhex("".join([document.code for document in page]))
        row = page[-1].row
        tell("reading", len(ids), len(collection))
    packed = np.frombuffer(codes, dtype=np.uint8)
    return ids, packed.reshape(len(ids), collection.n_bits // 8)


def _confirm(
    collection: CollectionBackend,
    cluster: Integers,
    codes: Codes,
    ids: Sequence[str],
    criteria: DuplicateCriteria,
) -> list[Integers]:
    """Split a cluster by comparing texts, if the criteria say so."""
    if criteria.confirm is None:
        return [cluster]
    texts: dict[int, str] = {}
    for position in cluster.tolist():
        check_cancelled()
        document = collection.get(ids[position])
        if document is not None and document.text is not None:
            texts[position] = document.text
    positions = np.array(list(texts), dtype=np.int64)
    return [
        positions[some] for some in near_texts(list(texts.values()), codes[positions], criteria)
    ]


def _shingle_matrix(texts: Sequence[str], length: int) -> Any:
    """Return a sparse matrix, 1 where a text (row) has a shingle (column)."""
    numbers: defaultdict[tuple[str, ...], int] = defaultdict()
    numbers.default_factory = numbers.__len__
    columns: list[int] = []
    ends = [0]
    for text in texts:
        columns += [numbers[shingle] for shingle in shingles_of(text, length)]
        ends.append(len(columns))
    ones = np.ones(len(columns), dtype=np.int64)
    from scipy.sparse import csr_array  # noqa: PLC0415 - it takes longer than a search

    return csr_array((ones, columns, ends), shape=(len(texts), len(numbers)))


def _connect(labels: Integers, edges: Sequence[tuple[Integers, Integers]]) -> Integers:
    """Return labels that are equal where `labels` are, and along `edges`.

    Of the labels at the ends of an edge, the higher one becomes the lower one, until none is left.
    SciPy's function takes as long, but without a break, and keeps the interpreter lock.
    """
    parents = np.arange(int(labels.max(initial=-1)) + 1)
    for first, second in edges:
        left, right = parents[labels[first]], parents[labels[second]]
        while len(apart := np.flatnonzero(left != right)):
            check_cancelled()
            left, right = left[apart], right[apart]
            parents[np.maximum(left, right)] = np.minimum(left, right)
            while not np.array_equal(above := parents[parents], parents):
                parents = above
            left, right = parents[left], parents[right]
    return parents[labels]


def _clusters(labels: Integers) -> list[Integers]:
    """Return the positions of each label that occurs at least twice, ordered by the first."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    several = np.flatnonzero(ends - starts > 1)
    several = several[np.argsort(order[starts[several]])]
    clusters = []
    for position, (start, end) in enumerate(zip(starts[several], ends[several], strict=True)):
        if not position % ROWS_AT_ONCE:
            check_cancelled()
        clusters.append(order[start:end])
    return clusters
