"""Statistics of the labels of a collection: counts, agreement, and the expected gain."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from evaluation.labelling.agreement import agreement_on_judgements, agreement_on_labels
from evaluation.labelling.document_vectors import VectorCache
from evaluation.labelling.gain import expected_gain
from evaluation.labelling.suggesting import labelled_pool
from index.annotations.annotation_records import agreed_labels
from index.collection import Collection


def label_statistics(
    collection: Collection, cache: VectorCache, label_field: str | None = None
) -> dict[str, Any]:
    """Return the fields of :class:`service.schemas.labels.labels.LabelStats`.

    Raises:
        InputError: if the label field of a document holds something that is not a label.
        StoreError: if the collection cannot be read.
    """
    labels, judgements = collection.annotations.labels(), collection.annotations.judgements()
    agreed = agreed_labels(labels)
    label_counts = Counter(
        label for document_labels in agreed.values() for label in document_labels
    )
    labels_by = Counter(one.who for one in labels)
    judgements_by = Counter(one.who for one in judgements)
    gain = expected_gain(labelled_pool(collection, cache, agreed, label_field).pool)
    agreement = [*agreement_on_labels(labels), *agreement_on_judgements(judgements)]
    return {
        "documents": len(collection),
        "labelled": len({one.id for one in labels}),
        "labels": [
            {"label": label, "documents": n}
            for label, n in sorted(label_counts.items(), key=lambda item: (-item[1], item[0]))
        ],
        "judgements": len(judgements),
        "queries": len({one.query for one in judgements}),
        "people": [
            {"who": who, "labels": labels_by[who], "judgements": judgements_by[who]}
            for who in sorted({*labels_by, *judgements_by})
        ],
        "agreement": [{**asdict(one), "who": list(one.who)} for one in agreement],
        "expected_gain": None if gain is None else asdict(gain),
    }
