"""Recommendations: documents like some examples and unlike others, by codes.

The strategy ``average_vector`` ranks by the mean of the examples (:func:`recommendation_query`),
``best_score`` by the nearest of them (:class:`hummingbit.index.rankings.BestScoreRanking`). The
code of an example counts as a vector of ±1, and the similarity of two codes is the cosine
``1 - 2 d / n_bits`` of their vectors, where d is the Hamming distance.

Source: Qdrant's recommendation strategies,
https://qdrant.tech/documentation/concepts/explore/#recommendation-api
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hummingbit.encoder.codes import pack_bits, unpack_codes
from hummingbit.foundation.errors import InputError
from hummingbit.index.names import AVERAGE_VECTOR, BEST_SCORE, STRATEGIES
from hummingbit.index.records import EncodedQueries, Examples, Query

MAX_EXAMPLES = 100


def check_examples(positive: Sequence[Query], negative: Sequence[Query], strategy: str) -> None:
    """Raise InputError unless there are examples as the strategy needs them."""
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise InputError("strategy", f"is {strategy[:40]!r}; it must be one of {known}")
    for field, examples in (("positive", positive), ("negative", negative)):
        if len(examples) > MAX_EXAMPLES:
            reason = f"has {len(examples):,} examples; it must have at most {MAX_EXAMPLES}"
            raise InputError(field, reason)
    if not positive and (strategy == AVERAGE_VECTOR or not negative):
        hint = "" if strategy == BEST_SCORE else f"; only {BEST_SCORE} takes negative ones alone"
        raise InputError("positive", f"has no example; it must have one or more{hint}")


def recommendation_query(
    encoded: EncodedQueries, examples: Sequence[Query], n_positive: int, strategy: str
) -> EncodedQueries:
    """Return the query for examples, of which the first `n_positive` are the positive ones.

    Its weights are those of ``average_vector``, and its code their signs:

        w = m⁺ + (m⁺ - m⁻),   or w = m⁺ without negative examples,

    where m⁺ and m⁻ are the means of the examples' vectors, here times the numbers of examples, so
    that they are whole numbers. Documents with the ids of examples are left out of the hits.

    Raises:
        InputError: if the encoder knows no word of a text; it names the example.
    """
    for at in range(len(encoded)):
        if encoded.is_unrecognized(at):
            field, position = ("positive", at) if at < n_positive else ("negative", at - n_positive)
            unknown = f"the encoder knows no word of {examples[at].text!r:.80}"
            raise InputError(field, unknown, position)
    signs = unpack_codes(encoded.codes).astype(np.int64) * 2 - 1
    positive, negative = signs[:n_positive], signs[n_positive:]
    weights = positive.sum(axis=0)
    if len(negative):
        weights = 2 * len(negative) * weights - len(positive) * negative.sum(axis=0)
    of_examples = None
    if strategy == BEST_SCORE:
        of_examples = Examples(encoded.codes[:n_positive], encoded.codes[n_positive:])
    return EncodedQueries(
        pack_bits(weights[None] > 0),
        weights[None].astype(np.float32),
        [None],
        np.ones(1, dtype=np.bool_),
        [None],
        examples=of_examples,
        left_out=tuple(dict.fromkeys(example.id for example in examples if example.id is not None)),
    )
