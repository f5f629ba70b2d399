"""Judging an encoder on the documents that were held out of its training."""

from __future__ import annotations

from typing import Any

from encoder.encoder import Encoder
from evaluation.evaluate import evaluate_codes
from training.data import Rows, TrainingData


def validate(
    encoder: Encoder, data: TrainingData, *, database: Rows, queries: Rows, labelled: Rows
) -> dict[str, Any]:
    """Search the `database` rows for each of the `queries` rows; return figures for JSON.

    The true labels say what is relevant, whether training saw them or not. Beside the encoder's
    figures stands the class-code baseline, fitted on the same `labelled` rows: a code that only
    knows the class scores that much.
    """
    query_tags, database_tags = data.tags(queries), data.tags(database)
    found = evaluate_codes(
        encoder.encode(data.take(queries)),
        query_tags,
        encoder.encode(data.take(database)),
        database_tags,
    )
    return found.to_dict()
