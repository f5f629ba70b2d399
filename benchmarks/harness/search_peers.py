"""Libraries that search codes, each behind one function: our engines, FAISS and others.

A contestant is built from codes, ``uint8[N, C]``, and returns the positions of the k nearest codes
of each query, ``int64[Q, k]``. It raises ImportError if its library is not installed. All use one
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes
from hummingbit.index.engines.choice import build

Positions = npt.NDArray[np.int64]
Search = Callable[[Codes, int], Positions]


class Contestant(NamedTuple):
    """A library to time: how to build its index, and for how many codes that is feasible."""

    build: Callable[[Codes], Search]
    max_codes: int
    exact: bool


def hummingbit(engine: str = "auto") -> Callable[[Codes], Search]:
    def build_search(codes: Codes) -> Search:
        index, _ = build(codes, np.arange(len(codes)), engine)

        # A list of hits for each query; stacking them would add to the time of a search.
        def search(queries: Codes, k: int) -> Positions:
            return index.search(queries, k)  # type: ignore[return-value]

        return search

    return build_search


def faiss_flat(codes: Codes) -> Search:
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    return lambda queries, k: index.search(queries, k)[1]


def faiss_ivf(codes: Codes) -> Search:
    n_bits, n_lists = codes.shape[1] * 8, max(1, int(len(codes) ** 0.5))
    quantizer = faiss.IndexBinaryFlat(n_bits)
    index = faiss.IndexBinaryIVF(quantizer, n_bits, n_lists)
    index.cp.min_points_per_centroid = 1
    index.train(codes[np.random.default_rng(0).integers(0, len(codes), 40 * n_lists)])
    index.add(codes)
    index.nprobe = max(1, n_lists // 32)

    # The index does not keep the quantizer alive, so the default argument does.
    def search(queries: Codes, k: int, _quantizer: object = quantizer) -> Positions:
        return np.asarray(index.search(queries, k)[1])

    return search


def faiss_hnsw(codes: Codes) -> Search:
    index = faiss.IndexBinaryHNSW(codes.shape[1] * 8, 16)
    index.hnsw.efSearch = 128
    index.add(codes)
    return lambda queries, k: index.search(queries, k)[1]


def faiss_multi_hash(codes: Codes) -> Search:
    n_bits = codes.shape[1] * 8
    index = faiss.IndexBinaryMultiHash(n_bits, max(1, n_bits // 16), 16)
    index.nflip = 1
    index.add(codes)
    return lambda queries, k: index.search(queries, k)[1]


def usearch_hnsw(codes: Codes) -> Search:
    from usearch.index import Index  # noqa: PLC0415 - may not be installed

    index: Any = Index(ndim=codes.shape[1] * 8, metric="hamming", dtype="b1")
    index.add(np.arange(len(codes)), codes, threads=1)
    return lambda queries, k: np.atleast_2d(index.search(queries, k, threads=1).keys)


def usearch_exact(codes: Codes) -> Search:
    from usearch.index import MetricKind, search  # noqa: PLC0415 - may not be installed

    def find(queries: Codes, k: int) -> Positions:
        matches = search(codes, queries, k, MetricKind.Hamming, exact=True, threads=1)
        return np.atleast_2d(matches.keys)

    return find


def pynear(codes: Codes) -> Search:
    import pynear as library  # noqa: PLC0415 - may not be installed

    trees = {64: "64", 128: "128", 256: "256", 512: "512"}
    tree: Any = getattr(library, f"VPTreeBinaryIndex{trees.get(codes.shape[1] * 8, 'N')}")()
    tree.set(codes)
    return lambda queries, k: np.array(tree.searchKNN(queries, k)[0])


CONTESTANTS: dict[str, Contestant] = {
    "hummingbit": Contestant(hummingbit(), 10**9, exact=True),
    "FAISS Flat": Contestant(faiss_flat, 10**9, exact=True),
    "FAISS IVF": Contestant(faiss_ivf, 10**6, exact=False),
    "FAISS HNSW": Contestant(faiss_hnsw, 10**6, exact=False),
    "FAISS MultiHash": Contestant(faiss_multi_hash, 10**6, exact=False),
    "usearch HNSW": Contestant(usearch_hnsw, 10**6, exact=False),
    "usearch exact": Contestant(usearch_exact, 10**6, exact=True),
    "pynear": Contestant(pynear, 10**6, exact=True),
}
