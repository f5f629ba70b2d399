"""What the metadata of an encoder say about where it comes from.

Training writes these keys and values, and retraining a collection reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORD_VECTORS, TEACHER = "word_vectors", "teacher"
"""The keys of what an encoder may have learned from beside the documents."""
WORD_VECTOR_CLASSIFIERS = ("words", "bayes-words", "svm-words")
"""The values of `query_classifier`, in the recipe of class codes, that need word vectors."""


def learned_from(metadata: Mapping[str, Any]) -> list[str]:
    """Return the kind and the name of all that an encoder learned from beside the documents."""
    kinds = {WORD_VECTORS: "word vectors", TEACHER: "teacher"}
    return [
        f"{kind} {name}"
        for key, kind in kinds.items()
        if (name := (metadata.get(key) or {}).get("name"))
    ]
