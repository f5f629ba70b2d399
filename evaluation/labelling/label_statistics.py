"""What is said of the labels of a collection: counts, agreement, and the expected gain."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from evaluation.labelling.agreement import agreement_on_judgements, agreement_on_labels
from evaluation.labelling.gain import expected_gain
from evaluation.labelling.places import PlacesCache
from evaluation.labelling.suggesting import labelled_pool
from index.annotations.annotation_records import agreed_labels
from index.collection import Collection


def label_statistics(
    collection: Collection, cache: PlacesCache, label_field: str | None = None
) -> dict[str, Any]:
    """Return what :class:`service.schemas.labels.labels.LabelStats` describes.

    Raises:
        InputError: if the label field holds something that is no label in some document.
        StoreError: if the collection cannot be read.
    """
    labels, judgements = collection.annotations.labels(), collection.annotations.judgements()
    agreed = agreed_labels(labels)
    counted = Counter(label for one in agreed.values() for label in one)
    given, judged = Counter(one.who for one in labels), Counter(one.who for one in judgements)
    gain = expected_gain(labelled_pool(collection, cache, agreed, label_field).pool)
    agreement = [*agreement_on_labels(labels), *agreement_on_judgements(judgements)]
    return {
        "documents": len(collection),
        "labelled": len({one.id for one in labels}),
        "labels": [
            {"label": label, "documents": n}
            for label, n in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
        ],
        "judgements": len(judgements),
        "queries": len({one.query for one in judgements}),
        "people": [
            {"who": who, "labels": given[who], "judgements": judged[who]}
            for who in sorted({*given, *judged})
        ],
        "agreement": [{**asdict(one), "who": list(one.who)} for one in agreement],
        "expected_gain": None if gain is None else asdict(gain),
    }
