"""A profile of the codes of a collection, by bit and by bucket, for plots.

:mod:`index.generations.code_statistics` has the summary in a collection's statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, unpack_codes
from foundation.slices import checkpoint
from index.bulk.code_table import CodeTable

Numbers = npt.NDArray[np.float64]

CODES_CORRELATED = 2**15
MAX_BITS_SHOWN = 128
CODES_AT_ONCE = 1 << 14
PURITY_STEPS = 10
LARGEST = 12


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
    shares = table.documents / max(n, 1)
    step = max(1, -(-table.codes.shape[1] * 8 // MAX_BITS_SHOWN))
    largest = np.argsort(-table.documents, kind="stable")[:LARGEST]
    return CodeProfile(
        generation=table.generation,
        documents=n,
        distinct_codes=len(table.codes),
        alone=int((table.documents == 1).sum()),
        entropy=float(-(shares @ np.log2(shares))) if n else None,
        ones=_shares_of_ones(table).tolist() if n else [],
        correlation=np.round(_correlation(table, step), 3).tolist() if n else [],
        step=step,
        largest=[_bucket(table, int(place)) for place in largest],
        purity=_purity(table),
    )


def _shares_of_ones(table: CodeTable) -> Numbers:
    total = np.zeros(table.codes.shape[1] * 8)
    for start in range(0, len(table.codes), CODES_AT_ONCE):
        checkpoint()
        some = slice(start, start + CODES_AT_ONCE)
        total += table.documents[some].astype(np.float64) @ unpack_codes(table.codes[some])
    shares: Numbers = total / table.documents.sum()
    return shares


def _correlation(table: CodeTable, step: int) -> Numbers:
    """Return Pearson's r between every `step`-th bit, on an evenly spaced sample of many codes."""
    every = -(-len(table.codes) // CODES_CORRELATED)
    codes, weights = table.codes[::every], table.documents[::every].astype(np.float64)
    weights /= weights.sum()
    n_bits = -(-table.codes.shape[1] * 8 // step)
    mean, products = np.zeros(n_bits), np.zeros((n_bits, n_bits))
    for start in range(0, len(codes), CODES_AT_ONCE):
        checkpoint()
        some = slice(start, start + CODES_AT_ONCE)
        bits = _bits(codes[some], step)
        weighted = bits * weights[some, None]
        mean += weighted.sum(axis=0)
        products += weighted.T @ bits
    covariance = products - np.outer(mean, mean)
    variances = np.diag(covariance).clip(min=0)
    # The variance of a constant bit is a rounding error.
    varies = variances > 1e-12
    deviations = np.sqrt(np.where(varies, variances, 1))
    scaled: Numbers = covariance / np.outer(deviations, deviations)
    return np.clip(np.where(np.outer(varies, varies), scaled, 0.0), -1, 1)


def _bits(codes: Codes, step: int) -> Numbers:
    return unpack_codes(codes)[:, ::step].astype(np.float64)


def _bucket(table: CodeTable, place: int) -> Bucket:
    labelled = table.labelled[place] > 0
    return Bucket(
        code=table.codes[place].tobytes(),
        documents=int(table.documents[place]),
        label=table.labels[table.label[place]] if labelled else None,
        purity=float(table.purity[place]) if labelled else None,
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
