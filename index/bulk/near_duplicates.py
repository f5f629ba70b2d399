"""Near-duplicates in a collection: documents whose codes, and optionally texts, hardly differ.

Two documents are near-duplicates if their codes differ in at most `radius` bits and, optionally,
the Jaccard similarity of their sets of shingles, which are runs of a few neighbouring terms, is
high enough. Near-duplicates connect documents to clusters, so two documents of one cluster may
differ more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from encoder.analyzers import VISIBLE
from encoder.codes import Codes, hamming_distance
from foundation.errors import InputError
from foundation.slices import checkpoint
from foundation.stages import begin_stage
from index.backend import CollectionBackend
from index.engines.portable.distinct_codes import distinct_codes
from index.engines.self_join import Integers, pairs_within

MAX_SHINGLE = 100
# Limits the memory of the edges that are connected at once.
EDGES_AT_ONCE = 1 << 23
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
        if not 0 <= self.radius <= n_bits:
            raise InputError("radius", f"is {self.radius}; it must be from 0 to {n_bits}")
        if self.confirm is not None and not 0 < self.confirm <= 1:
            raise InputError("confirm", f"is {self.confirm}; it must be above 0 and at most 1")
        if not 1 <= self.shingle <= MAX_SHINGLE:
            raise InputError("shingle", f"is {self.shingle}; it must be from 1 to {MAX_SHINGLE}")


def find_duplicates(
    collection: CollectionBackend, criteria: DuplicateCriteria
) -> Iterator[list[str]]:
    """Yield the ids of each cluster of near-duplicates, in the order of insertion, oldest first.

    Clusters are ordered by their oldest documents. The collection is read in pages, so documents
    that are written meanwhile may be missing.

    Raises:
        InputError: if `criteria` are not valid for the collection.
    """
    criteria.check(collection.n_bits)
    begin_stage(f"reading {len(collection):,} codes")
    ids, codes = _read(collection)
    begin_stage(f"comparing {len(codes):,} codes")
    clusters = near_codes(codes, criteria.radius)
    begin_stage(f"comparing the texts of {len(clusters):,} clusters of codes")
    for cluster in clusters:
        checkpoint()
        for members in _confirm(collection, cluster, codes, ids, criteria):
            yield [ids[place] for place in members.tolist()]


def near_codes(codes: Codes, radius: int) -> list[Integers]:
    """Return the clusters of `codes`, ``uint8[N, C]``, that pairs within `radius` connect.

    A cluster has the ascending positions of two or more codes; clusters are ordered by the first.
    """
    distinct, postings = distinct_codes(codes)
    labels = np.arange(len(distinct))
    edges: list[tuple[Integers, Integers]] = []
    waiting = 0
    for pairs in pairs_within(distinct, radius):
        edges.append((pairs.first, pairs.second))
        waiting += len(pairs.first)
        if waiting >= EDGES_AT_ONCE:
            labels, edges, waiting = _connect(labels, edges), [], 0
    return _clusters(_connect(labels, edges)[postings.code_of])


def near_texts(texts: Sequence[str], codes: Codes, criteria: DuplicateCriteria) -> list[Integers]:
    """Return the clusters of `texts` with similar shingles and `codes`, ``uint8[N, C]``.

    They have the form and order of :func:`near_codes`.
    """
    if not texts:
        return []
    # Equal texts with equal codes are compared once.
    places: dict[tuple[str, bytes], int] = {}
    both = zip(texts, codes, strict=True)
    same = np.array([places.setdefault((text, code.tobytes()), len(places)) for text, code in both])
    _, first = np.unique(same, return_index=True)
    labels = _connect_texts([text for text, _ in places], codes[first], criteria)
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
        checkpoint()
        start = end
        most = (int(pairs[start - 1]) if start else 0) + SHARED_AT_ONCE
        end = int(np.searchsorted(pairs, most, side="right"))
        end = min(max(end, start + 1), start + ROWS_AT_ONCE)
        shared = (shingles[start:end] @ transposed).tocoo()
        one, other, both = shared.coords[0] + start, shared.coords[1], shared.data
        alike = both / (sizes[one] + sizes[other] - both) >= least
        one, other = one[alike], other[alike]
        near = hamming_distance(codes[one], codes[other]) <= criteria.radius
        labels = _connect(labels, [(one[near], other[near])])
    return labels


def shingles_of(text: str, length: int) -> set[tuple[str, ...]]:
    """Return the runs of `length` neighbouring terms of `text`; a shorter text is one run."""
    terms = VISIBLE.terms(text)
    if len(terms) <= length:
        return {tuple(terms)}
    return set(zip(*(terms[start:] for start in range(length)), strict=False))


def _read(collection: CollectionBackend) -> tuple[list[str], Codes]:
    ids: list[str] = []
    codes: list[str] = []
    row = 0
    while page := collection.documents_after(row, PAGE):
        checkpoint()
        ids += [document.id for document in page]
        codes += [document.code for document in page]
        row = page[-1].row
    packed = np.frombuffer(bytes.fromhex("".join(codes)), dtype=np.uint8)
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
    documents = {place: collection.get(ids[place]) for place in cluster.tolist()}
    texts = {place: one.text for place, one in documents.items() if one and one.text is not None}
    places = np.array(list(texts), dtype=np.int64)
    return [places[some] for some in near_texts(list(texts.values()), codes[places], criteria)]


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
    return sparse.csr_array((ones, columns, ends), shape=(len(texts), len(numbers)))


def _connect(labels: Integers, edges: Sequence[tuple[Integers, Integers]]) -> Integers:
    """Return labels that are equal where `labels` are, and along `edges`."""
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - imports scipy.linalg

    if not edges:
        return labels
    first, second = (labels[np.concatenate(ends)] for ends in zip(*edges, strict=True))
    shape = (len(labels), len(labels))
    graph = sparse.coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=shape)
    components: Integers = connected_components(graph, directed=False)[1].astype(np.int64)
    return components[labels]


def _clusters(labels: Integers) -> list[Integers]:
    """Return the positions of each label that occurs at least twice, ordered by the first."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    groups = [group for group in np.split(order, starts[1:]) if len(group) > 1]
    return sorted(groups, key=lambda group: int(group[0]))
