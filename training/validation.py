"""Judging an encoder on the documents that were held out of its training."""

from __future__ import annotations

from typing import Any

from evaluation.classifier_baseline import ClassifierReference, classifier_baseline
from evaluation.evaluate import evaluate_encoder
from evaluation.relevance import Labelled


def validate(
    reference: ClassifierReference, *, shown: Labelled, database: Labelled, queries: Labelled
) -> dict[str, Any]:
    """Search the `database` for each of the `queries`; return figures for JSON.

    The true labels say what is relevant, whether training saw them or not. Beside the encoder's
    figures stands the classifier baseline: a code that knows only the class scores that much.
    Without labelled queries there is nothing to judge by, and no figures; without labels of two
    classes there is no baseline.
    """
    if not len(queries):
        return {}
    found = evaluate_encoder(reference.encoder, database, queries)
    classes = {tag for labels in shown.labels for tag in labels}
    beside = classifier_baseline(reference, shown, database, queries) if len(classes) > 1 else None
    # Artifacts have held it under this name since their first version.
    return {**found.to_dict(), "class_code": beside and beside.to_dict()}
