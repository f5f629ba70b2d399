"""Statistics of the codes of a collection, which show whether codes have collapsed.

:func:`code_statistics` is the summary in a collection's statistics; :func:`profile_of` has what
plots show: values by bit, and the buckets, which are the codes with their documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.maps import CodeTable, Floats, Integers

# Correlations take n_bits² steps for each code; a sample of so many codes is enough.
CODES_CORRELATED = 2**16
CODES_AT_ONCE = 2**14
MAX_BITS_SHOWN = 128
MAX_BITS_CORRELATED = 1024
PURITY_STEPS = 10
LARGEST = 12


def code_statistics(generation: IndexSnapshot) -> dict[str, Any]:
    """Return how diverse the codes are, ready for JSON.

    - ``distinct_codes``: the number of distinct codes.
    - ``largest_share``: the share of documents that have the most frequent code.
    - ``entropy``: −Σ p log₂ p in bits, where p is the share of documents with each code. At most
      ``n_bits``, and at most log₂ of the number of documents.
    - ``bit_balance``: over the bits, the share of documents in which a bit is 1.
    - ``bit_entropy``: over the bits, the entropy of that share, at most 1.
    - ``dead_bits``: the positions of bits that are equal in all documents, so they say nothing.
    - ``bit_correlation``: Pearson's |r| over the pairs of bits that are not dead. Of more than
      65,536 distinct codes, only so many are used, evenly spaced in order.
    - ``occupancy``: how many codes belong to 1, 2–3, 4–7, … documents, by the least of these.

    A value that is not defined is None: without documents or codes, all but the counts; with fewer
    than two live bits, the correlations.
    """
    n = len(generation)
    codes, counts = generation.distinct_codes()
    if n == 0 or not generation.n_bits:
        names = ("largest_share", "entropy", "bit_balance", "bit_entropy", "bit_correlation")
        return {"distinct_codes": 0, **dict.fromkeys(names), "dead_bits": [], "occupancy": {}}
    shares = shares_of_ones(codes, counts)
    dead = (shares == 0) | (shares == 1)
    return {
        "distinct_codes": len(codes),
        "largest_share": float(counts.max() / n),
        "entropy": _entropy(counts),
        "bit_balance": _spread(shares),
        "bit_entropy": _spread(_bit_entropy(shares)),
        "dead_bits": np.flatnonzero(dead).tolist(),
        "bit_correlation": _mean_correlation(codes, counts),
        "occupancy": {str(least): codes for least, codes, _ in occupancy(counts)},
    }


def _spread(values: Floats) -> dict[str, float]:
    return {
        "least": float(values.min()),
        "mean": float(values.mean()),
        "most": float(values.max()),
    }


def _bit_entropy(shares: Floats) -> Floats:
    probabilities = np.stack([shares, 1 - shares])
    # 0 log 0 is 0.
    terms: Floats = -probabilities * np.log2(np.where(probabilities > 0, probabilities, 1))
    return np.asarray(terms.sum(axis=0))


def _entropy(counts: Integers) -> float:
    """Return −Σ p log₂ p over the shares p of these counts, each at least 1."""
    n = counts.sum()
    return float(np.log2(n) - counts @ np.log2(counts) / n)


def shares_of_ones(codes: Codes, counts: Integers) -> Floats:
    """Return the share of documents in which each bit is 1; code c has ``counts[c]`` documents."""
    total = np.zeros(codes.shape[1] * 8)
    for start in range(0, len(codes), CODES_AT_ONCE):
        check_cancelled()
        some = slice(start, start + CODES_AT_ONCE)
        total += counts[some].astype(np.float64) @ unpack_codes(codes[some])
    return np.asarray(total / counts.sum())


def _bit_correlations(
    codes: Codes, counts: Integers, step: int = 1
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return Pearson's r between every `step`-th bit, on an evenly spaced sample of many codes.

    It is 0 for bits that are constant in the sample; the second value tells which bits vary.
    """
    every = -(-len(codes) // CODES_CORRELATED)
    codes, weights = codes[::every], counts[::every] / counts[::every].sum()
    n_bits = -(-codes.shape[1] * 8 // step)
    mean, products = np.zeros(n_bits), np.zeros((n_bits, n_bits))
    for start in range(0, len(codes), CODES_AT_ONCE):
        check_cancelled()
        some = slice(start, start + CODES_AT_ONCE)
        bits = unpack_codes(codes[some])[:, ::step].astype(np.float64)
        weighted = bits * weights[some, None]
        mean += weighted.sum(axis=0)
        products += weighted.T @ bits
    covariance = products - np.outer(mean, mean)
    variances = np.diag(covariance).clip(min=0)
    # The variance of a constant bit is a rounding error.
    varies = variances > 1e-12
    deviations = np.sqrt(np.where(varies, variances, 1))
    scaled = covariance / np.outer(deviations, deviations)
    return np.clip(np.where(np.outer(varies, varies), scaled, 0.0), -1, 1), varies


def _mean_correlation(codes: Codes, counts: Integers) -> dict[str, float] | None:
    step = -(-codes.shape[1] * 8 // MAX_BITS_CORRELATED)
    correlations, varies = _bit_correlations(codes, counts, step)
    alive = np.abs(correlations[np.ix_(varies, varies)])
    pairs = alive[np.triu_indices(len(alive), k=1)]
    return {"mean": float(pairs.mean()), "most": float(pairs.max())} if len(pairs) else None


def occupancy(counts: Integers) -> list[tuple[int, int, int]]:
    """Group codes by their number of documents: 1, 2 to 3, 4 to 7, and so on.

    Returns the least number of each group, and its codes and documents.
    """
    steps = np.frexp(counts.astype(np.float64))[1] - 1
    groups = zip(np.bincount(steps), np.bincount(steps, counts), strict=True)
    return [(2**step, int(codes), int(n)) for step, (codes, n) in enumerate(groups)]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A code and its documents; `label` and `purity` are None if none is labelled."""

    code: bytes
    documents: int
    label: str | None
    purity: float | None


@dataclass(frozen=True, slots=True)
class PurityProfile:
    """How far documents with the same code share a label, for codes of several labelled documents.

    `mean` weights codes by their labelled documents. `by_chance` is the share of the most frequent
    label, the purity of one code for all documents. `histogram` counts labelled documents by the
    purity of their code, in ten equal steps.
    """

    labelled: int
    in_shared_codes: int
    mean: float | None
    by_chance: float
    histogram: list[int]


@dataclass(frozen=True, slots=True)
class CodeProfile:
    """The bits and buckets of N documents.

    `ones` is the share of documents in which each bit is 1. `correlation` is Pearson's r between
    bits, 0 for dead bits; of more than 128 bits, only every `step`-th is included. `largest` are
    the codes with the most documents.
    """

    generation: int
    documents: int
    distinct_codes: int
    alone: int
    """The number of documents whose code no other document has."""
    entropy: float | None
    ones: list[float]
    correlation: list[list[float]]
    step: int
    largest: list[Bucket]
    purity: PurityProfile | None


def profile_of(table: CodeTable) -> CodeProfile:
    """Return the profile of the documents of a table."""
    n = int(table.documents.sum())
    step = max(1, -(-table.codes.shape[1] * 8 // MAX_BITS_SHOWN))
    correlations = _bit_correlations(table.codes, table.documents, step)[0] if n else np.empty(0)
    largest = np.argsort(-table.documents, kind="stable")[:LARGEST]
    return CodeProfile(
        generation=table.generation,
        documents=n,
        distinct_codes=len(table.codes),
        alone=int((table.documents == 1).sum()),
        entropy=_entropy(table.documents) if n else None,
        ones=shares_of_ones(table.codes, table.documents).tolist() if n else [],
        correlation=np.round(correlations, 3).tolist(),
        step=step,
        largest=[_bucket(table, int(position)) for position in largest],
        purity=_purity(table),
    )


def _bucket(table: CodeTable, position: int) -> Bucket:
    labelled = table.labelled[position] > 0
    return Bucket(
        code=table.codes[position].tobytes(),
        documents=int(table.documents[position]),
        label=table.labels[table.label[position]] if labelled else None,
        purity=float(table.purity[position]) if labelled else None,
    )


def _purity(table: CodeTable) -> PurityProfile | None:
    labelled = int(table.labelled.sum())
    if not labelled:
        return None
    shared = table.labelled > 1
    weights, purity = table.labelled[shared], table.purity[shared]
    steps = np.minimum((purity * PURITY_STEPS).astype(np.int64), PURITY_STEPS - 1)
    return PurityProfile(
        labelled=labelled,
        in_shared_codes=int(weights.sum()),
        mean=float(weights @ purity / weights.sum()) if shared.any() else None,
        by_chance=float(table.label_documents.max() / labelled),
        histogram=np.bincount(steps, weights, PURITY_STEPS).astype(int).tolist(),
    )
