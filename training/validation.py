"""Judging an encoder on the documents that were held out of its training."""

from __future__ import annotations

from typing import Any

from encoder.encoder import Encoder
from evaluation.baselines import class_code_baseline
from evaluation.evaluate import evaluate_encoder
from evaluation.relevance import Labelled


def validate(
    encoder: Encoder, *, shown: Labelled, database: Labelled, queries: Labelled
) -> dict[str, Any]:
    """Search the `database` for each of the `queries`; return figures for JSON.

    The true labels say what is relevant, whether training saw them or not. Beside the encoder's
    figures stands the class-code baseline, fitted on the labels that were `shown` to the encoder:
    a code that only knows the class scores that much. Without labelled queries there is nothing to
    judge by, and no figures; without labels of two classes there is no class code.
    """
    if not len(queries):
        return {}
    found = evaluate_encoder(encoder, database, queries)
    classes = {tag for labels in shown.labels for tag in labels}
    class_code = class_code_baseline(shown, database, queries) if len(classes) > 1 else None
    return {**found.to_dict(), "class_code": class_code and class_code.to_dict()}
