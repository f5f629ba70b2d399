"""Near-duplicates in a collection: documents whose codes, and on request texts, hardly differ.

Two documents are near-duplicates if their codes differ in at most `radius` bits and, where that is
asked for, the Jaccard similarity of the sets of their shingles, runs of a few neighbouring terms,
reaches a share. A cluster is what near-duplicates connect: two of one cluster may differ more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from encoder.analyzers import UNICODE
from encoder.codes import Codes, hamming_distance
from foundation.errors import InputError
from foundation.slices import checkpoint
from index.backend import CollectionBackend
from index.engines.portable.postings import distinct_codes
from index.engines.self_join import Integers, pairs_within

MAX_SHINGLE = 100
# Bounds the memory of the edges that are brought together at once.
EDGES_AT_ONCE = 1 << 23
ROWS_AT_ONCE = 4096
# Bounds the memory of the shingles that pairs of texts share: thousands may begin alike.
SHARED_AT_ONCE = 1 << 20
PAGE = 1000


@dataclass(frozen=True, slots=True)
class DuplicateCriteria:
    """When two documents are near-duplicates."""

    radius: int
    confirm: float | None = None
    """The least Jaccard similarity of the shingles of their texts; None asks for none."""
    shingle: int = 5
    """How many terms a shingle has. A shorter text is one shingle."""

    def check(self, n_bits: int) -> None:
        """Raise InputError unless codes of `n_bits` bits can be compared so."""
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

    Clusters come by their oldest documents. The collection is read in pages: what is written
    meanwhile may be left out.

    Raises:
        InputError: if `criteria` do not fit the collection.
    """
    criteria.check(collection.n_bits)
    ids, codes = _read(collection)
    for cluster in near_codes(codes, criteria.radius):
        checkpoint()
        for members in _confirmed(collection, cluster, codes, ids, criteria):
            yield [ids[place] for place in members.tolist()]


def near_codes(codes: Codes, radius: int) -> list[Integers]:
    """Return the clusters of `codes`, ``uint8[N, C]``, that pairs within `radius` connect.

    A cluster is the places of two codes or more, ascending; clusters come by their first place.
    """
    distinct, postings = distinct_codes(codes)
    labels = np.arange(len(distinct))
    edges: list[tuple[Integers, Integers]] = []
    waiting = 0
    for pairs in pairs_within(distinct, radius):
        edges.append((pairs.first, pairs.second))
        waiting += len(pairs.first)
        if waiting >= EDGES_AT_ONCE:
            labels, edges, waiting = _connected(labels, edges), [], 0
    return _clusters(_connected(labels, edges)[postings.code_of])


def near_texts(texts: Sequence[str], codes: Codes, criteria: DuplicateCriteria) -> list[Integers]:
    """Return the clusters of `texts` whose shingles and `codes`, ``uint8[N, C]``, are alike.

    They come as those of :func:`near_codes` do.
    """
    if not texts:
        return []
    # Texts that are the same, codes and all, are compared once.
    places: dict[tuple[str, bytes], int] = {}
    both = zip(texts, codes, strict=True)
    same = np.array([places.setdefault((text, code.tobytes()), len(places)) for text, code in both])
    _, first = np.unique(same, return_index=True)
    labels = _connected_texts([text for text, _ in places], codes[first], criteria)
    return _clusters(labels[same])


def _connected_texts(texts: Sequence[str], codes: Codes, criteria: DuplicateCriteria) -> Integers:
    """Return labels of texts, equal where near-duplicates connect them."""
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
        labels = _connected(labels, [(one[near], other[near])])
    return labels


def shingles_of(text: str, length: int) -> set[tuple[str, ...]]:
    """Return the runs of `length` neighbouring terms of `text`; of a shorter one, all its terms."""
    terms = UNICODE.terms(text)
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


def _confirmed(
    collection: CollectionBackend,
    cluster: Integers,
    codes: Codes,
    ids: Sequence[str],
    criteria: DuplicateCriteria,
) -> list[Integers]:
    """Return what is left of a cluster where texts are compared, too."""
    if criteria.confirm is None:
        return [cluster]
    known = {place: collection.get(ids[place]) for place in cluster.tolist()}
    texts = {place: one.text for place, one in known.items() if one and one.text is not None}
    places = np.array(list(texts), dtype=np.int64)
    return [places[some] for some in near_texts(list(texts.values()), codes[places], criteria)]


def _shingle_matrix(texts: Sequence[str], length: int) -> Any:
    """Return which text has which shingle, 1 or 0: a sparse matrix of N rows."""
    numbers: defaultdict[tuple[str, ...], int] = defaultdict()
    numbers.default_factory = numbers.__len__
    columns: list[int] = []
    ends = [0]
    for text in texts:
        columns += [numbers[shingle] for shingle in shingles_of(text, length)]
        ends.append(len(columns))
    ones = np.ones(len(columns), dtype=np.int64)
    return sparse.csr_array((ones, columns, ends), shape=(len(texts), len(numbers)))


def _connected(labels: Integers, edges: Sequence[tuple[Integers, Integers]]) -> Integers:
    """Return labels that are equal where `labels` are, and also along edges."""
    if not edges:
        return labels
    first, second = (labels[np.concatenate(ends)] for ends in zip(*edges, strict=True))
    shape = (len(labels), len(labels))
    graph = sparse.coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=shape)
    found: Integers = connected_components(graph, directed=False)[1].astype(np.int64)
    return found[labels]


def _clusters(labels: Integers) -> list[Integers]:
    """Return the places of each label that two or more have, by the first of them."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    groups = [group for group in np.split(order, starts[1:]) if len(group) > 1]
    return sorted(groups, key=lambda group: int(group[0]))
