"""The JSON of a collection's bits and buckets."""

from __future__ import annotations

from service.schemas.common import ResponseModel


class CodeBucket(ResponseModel):
    """A code, its most frequent label and the share that has it; both are null without labels."""

    code: str
    documents: int
    label: str | None
    purity: float | None


class BucketPurity(ResponseModel):
    """How far documents of one code share a label, over codes with two labelled ones or more.

    `mean` weighs codes by their labelled documents; `by_chance` is the share of the most frequent
    label. `histogram` counts labelled documents by the purity of their code, in ten equal steps.
    """

    labelled: int
    in_shared_codes: int
    mean: float | None
    by_chance: float
    histogram: list[int]


class CodesInfo(ResponseModel):
    """The bits and buckets of a collection, as of `generation`.

    `ones` is the share of documents in which each bit is 1; bit 0 is the first of the code.
    `correlation` is Pearson's r between bits, of every `step`-th bit where there are more than
    128; 0 for bits that never change. `alone` counts documents whose code no other document has.
    `entropy` is that of the distribution of documents over codes, in bits. `largest` are the codes
    with the most documents; `purity` is null if no document is labelled.
    """

    generation: int
    n_bits: int
    documents: int
    distinct_codes: int
    alone: int
    entropy: float | None
    ones: list[float]
    correlation: list[list[float]]
    step: int
    largest: list[CodeBucket]
    purity: BucketPurity | None
