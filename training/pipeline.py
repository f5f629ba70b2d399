"""What all methods share: the split, the features, the evaluation and the written encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from encoder.analyzers import Analyzer
from encoder.artifact import write_artifact
from encoder.artifact_files.manifest import LABELLED_IDS, METRICS
from encoder.classifier import CLASSIFIER, Classifier, classifier_bytes
from encoder.codes import Codes
from encoder.encoder import Encoder, Features
from encoder.features import Floats
from encoder.vector_features import VectorFeatures
from evaluation.classifier_baseline import (
    ClassifierReference,
    classifier_baseline,
    has_baseline,
)
from evaluation.relevance import Labelled
from evaluation.retrieval import evaluate_encoder
from training.data import Rows, Tags, TrainingData, TrainingDataError, hold_out, mask_labels
from training.soft_labels.fair_classifier import fit_classifier
from training.text_features import MIN_DOCUMENTS, fit_text_features

# Golden inputs are chosen among the first so many documents trained on.
_EXAMPLES = 1000
# With so many documents or more for each distinct code, codes have collapsed.
_DOCUMENTS_A_CODE = 50


@dataclass(frozen=True)
class Split:
    """Rows to train on, rows held out, and the labels that are shown."""

    training: Rows
    validation: Rows
    shown: Tags

    @property
    def labelled(self) -> Rows:
        """The rows whose labels are shown."""
        return np.flatnonzero(self.shown.any(axis=1))


@dataclass(frozen=True)
class Trained:
    """An encoder as it was written, and what was measured on the way."""

    encoder: Encoder
    labelled_ids: tuple[str, ...]
    validation: Mapping[str, Any]
    classifier: Classifier | None = None
    warnings: tuple[str, ...] = ()


class SplitSettings(Protocol):
    """What of a recipe decides which documents are held out and whose labels are shown."""

    @property
    def supervision(self) -> float:
        """The share of the labelled documents whose labels are shown."""

    @property
    def validation_share(self) -> float:
        """The share of the labelled documents held out."""

    @property
    def seed(self) -> int:
        """The seed of both draws."""


def split(data: TrainingData, recipe: SplitSettings) -> Split:
    """Hold out a share of the labelled documents, and show the labels of a share of the others."""
    rng = np.random.default_rng(recipe.seed)
    training, validation = hold_out(data.tags, recipe.validation_share, rng)
    tags = data.tags.copy()
    tags[validation] = False
    return Split(training, validation, mask_labels(tags, recipe.supervision, rng))


def check_labels(data: TrainingData, parts: Split, validation_share: float) -> None:
    """Check that there are labels to learn from and, if wanted, to evaluate by.

    Raises:
        TrainingDataError: if fewer than two classes are shown, or if none of the documents could be
            held out and `validation_share` is above 0.
    """
    if len(data.classes) < 2:
        found = f"the documents carry {len(data.classes)} distinct labels"
        needed = "semi-supervised training needs at least two; ict learns from texts without labels"
        raise TrainingDataError(f"label: {found}; {needed}")
    shown = int(parts.shown.any(axis=0).sum())
    if shown < 2 or (validation_share and not len(parts.validation)):
        found = f"{shown} of the classes are shown, {len(parts.validation)} documents held out"
        raise TrainingDataError(f"label: {found}; more labelled documents are needed")


def choose_features(
    data: TrainingData,
    training: Rows,
    max_terms: int,
    weighting: str = "tf-idf",
    analyzer: str = "unicode",
    *,
    least_documents: int = MIN_DOCUMENTS,
) -> Features:
    """Return the features of the documents trained on: terms of texts, or vectors as they are.

    A term counts if it occurs in `least_documents` texts.

    Raises:
        TrainingDataError: if there is no such term.
        AnalyzerError: if no analyzer has the name `analyzer`.
    """
    inputs = data.take(training)
    if isinstance(inputs, np.ndarray):
        return VectorFeatures(dimension=inputs.shape[1])
    terms = Analyzer.from_name(analyzer)
    return fit_text_features(inputs, max_terms, weighting, terms, least_documents=least_documents)


def with_median_thresholds(encoder: Encoder, inputs: Any) -> Encoder:
    """Return `encoder` with each threshold at the median of its logit over `inputs`."""
    medians: Floats = np.median(encoder.logits(inputs), axis=0).astype(np.float32)
    return replace(encoder, thresholds=medians)


def write_encoder(
    out: Path,
    encoder: Encoder,
    data: TrainingData,
    parts: Split,
    *,
    settings: Mapping[str, Any],
    history: list[dict[str, float]] | None = None,
    about: Mapping[str, Any] | None = None,
    soft_labels: Floats | None = None,
    overwrite: bool = False,
) -> Trained:
    """Evaluate `encoder` on the documents held out and write it, with what it was trained on.

    `about` is what a method has to say besides in the artifact's metadata. `soft_labels`,
    float32[N, C], are the distributions over classes that it learned from, of the rows trained on;
    the classifier that the codes are compared with is fitted to them, too. A class code has its
    classifiers in itself.
    """
    classifier = None
    if encoder.class_code is None:
        classifier = fit_classifier(
            encoder.features,
            data.take(parts.training),
            parts.shown[parts.training],
            soft_labels,
            seed=int(settings["seed"]),
        )
    figures = validate(
        ClassifierReference(encoder, classifier),
        training=data.labelled(parts.labelled),
        database=data.labelled(parts.training),
        queries=data.labelled(parts.validation),
    )
    metadata = {
        "method": settings["method"],
        "recipe": dict(settings),
        "trained_on": {
            "documents": len(data),
            "labelled": len(parts.labelled),
            "classes": list(data.classes),
            "sha256": data.sha256,
        },
        "validation": figures,
        **(about or {}),
    }
    labelled_ids = tuple(data.ids[row] for row in parts.labelled)
    written = write_artifact(
        out,
        replace(encoder, metadata=metadata),
        data.take(parts.training[:_EXAMPLES]),
        extra_files={
            **({} if classifier is None else {CLASSIFIER: classifier_bytes(classifier)}),
            LABELLED_IDS: json.dumps(labelled_ids, ensure_ascii=False, indent=0) + "\n",
            METRICS: json.dumps({"validation": figures, "epochs": history or []}, indent=2) + "\n",
        },
        overwrite=overwrite,
    )
    warnings = collapse_warnings(written.encode(data.take(parts.training[:_EXAMPLES])))
    return Trained(written, labelled_ids, figures, classifier, warnings)


def collapse_warnings(codes: Codes) -> tuple[str, ...]:
    """Return a warning if there is at most one distinct code for fifty documents, else nothing."""
    distinct = len(np.unique(codes, axis=0))
    if len(codes) < _DOCUMENTS_A_CODE or distinct * _DOCUMENTS_A_CODE > len(codes):
        return ()
    found = f"{len(codes):,} documents have {distinct:,} distinct code{'s'[: distinct != 1]}"
    return (f"{found}; a search cannot tell them apart. For texts, ict may do better",)


def is_trained_on(encoder: Encoder, data: TrainingData, settings: Mapping[str, Any]) -> bool:
    """Return whether `encoder` is what training on `data` with `settings` would give."""
    about = encoder.metadata
    same_data = about.get("trained_on", {}).get("sha256") == data.sha256
    return bool(same_data and about.get("recipe") == dict(settings))


def validate(
    reference: ClassifierReference, *, training: Labelled, database: Labelled, queries: Labelled
) -> dict[str, Any]:
    """Search the `database` for each of the `queries`; return figures for JSON.

    The true labels say what is relevant, whether training saw them or not. Beside the encoder's
    figures stands the classifier baseline: a code that knows only the class scores that much.
    Without labelled queries there are no figures; without labels of two
    classes, or with more classes than a code has bits, there is no baseline.
    """
    if not len(queries):
        return {}
    found = evaluate_encoder(reference.encoder, database, queries)
    beside = None
    if has_baseline(reference, training):
        beside = classifier_baseline(reference, training, database, queries)
    return {**found.to_dict(), "classifier_baseline": beside and beside.to_dict()}
