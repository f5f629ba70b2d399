from __future__ import annotations

import numpy as np
import pytest

from hummingbit.encoder.classifier import Classifier
from hummingbit.evaluation.baselines import ClassifierReference
from hummingbit.evaluation.relevance import Labelled
from hummingbit.training.pipeline import collapse_warnings, validate
from tests.support.encoders import WORDS, class_encoder, random_texts, text_encoder


def codes_of(distinct: int, documents: int) -> np.ndarray:
    return (np.arange(documents, dtype=np.uint16) % distinct).view(np.uint8).reshape(-1, 2)


def test_few_distinct_codes_are_said_to_be() -> None:
    (one,) = collapse_warnings(codes_of(1, 50))
    assert one.startswith("50 documents have 1 distinct code;")
    (several,) = collapse_warnings(codes_of(20, 1000))
    assert several.startswith("1,000 documents have 20 distinct codes;")


def test_many_distinct_codes_or_few_documents_are_no_collapse() -> None:
    assert collapse_warnings(codes_of(21, 1000)) == ()
    assert collapse_warnings(codes_of(1, 49)) == ()


@pytest.mark.parametrize("n_classes", [1024, 1025])
def test_more_classes_than_a_code_has_bits_cost_the_baseline_alone(n_classes: int) -> None:
    """Training has taken its time by then, and its encoder is to be written."""
    weight, bias = np.zeros((len(WORDS), n_classes)), np.zeros(n_classes)
    classifier = Classifier((weight.astype(np.float32),), (bias.astype(np.float32),))
    labels = [(f"class {number}",) for number in range(n_classes)]
    every = Labelled(random_texts(n_classes), labels)
    few = Labelled(every.inputs[:5], labels[:5])
    for reference in (
        ClassifierReference(text_encoder(), classifier),
        ClassifierReference(class_encoder(classes=n_classes), None),
    ):
        figures = validate(reference, training=every, database=every, queries=few)
        assert figures["queries"] == 5
        assert (figures["classifier_baseline"] is None) == (n_classes > 1024)
