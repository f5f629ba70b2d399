"""The steps that all methods share: split, features, evaluation and the artifact."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hummingbit.encoder.analyzers import VISIBLE, Analyzer
from hummingbit.encoder.artifact import (
    GOLDEN_INPUTS,
    LABELLED_IDS,
    LEARNED,
    METRICS,
    write_artifact,
)
from hummingbit.encoder.classifier import CLASSIFIER, Classifier, classifier_bytes
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder, Features, learned_bytes
from hummingbit.encoder.recipes import LabelledRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.text_model import ReadTexts
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.baselines import (
    BM25,
    SOFT_CLASS_SCORES,
    VECTORS,
    ClassifierReference,
    bm25,
    classifier_baseline,
    has_baseline,
    soft_class_scores,
    vector_cosine,
)
from hummingbit.evaluation.evaluate import evaluate_encoder, split_learned
from hummingbit.evaluation.metrics import DEFAULT_METRICS
from hummingbit.evaluation.relevance import Labelled
from hummingbit.evaluation.result import Evaluation
from hummingbit.evaluation.significance import compare_with_baselines
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.data import (
    Rows,
    Tags,
    TrainingData,
    TrainingDataError,
    hold_out,
    mask_labels,
)
from hummingbit.training.soft_labels import fit_classifier
from hummingbit.training.text_features import MIN_DOCUMENTS, fit_text_features

# Golden inputs are chosen among this many of the first training documents.
_EXAMPLES = 1000
# Codes have collapsed if there are this many documents or more for each distinct code.
_FEW_DOCUMENTS = 10
_DOCUMENTS_PER_CODE = 50
# A person reads ten hits: words can be ahead there and behind among the first hundred.
_METRICS = ("P@10", *DEFAULT_METRICS)
# Words and vectors rank all documents for a query, so that many of either take half a minute.
_MOST_QUERIES, _MOST_DOCUMENTS = 1000, 100_000


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let the libraries of linear algebra compute on one thread; the decorator of each training.

    So the number of cores changes no encoder. And the matrices are small: more threads wait for
    each other in busy loops. On two cores that others used too, ``train static`` with the 1,400
    texts of cranfield took 2.4 times the processor time with two threads, 1.6 times with
    ``OMP_WAIT_POLICY=passive`` and 1.3 times with ``GOMP_SPINCOUNT=0``; ``ict`` took 2.2 times, and
    ``class-codes`` with 3,000 texts of hwu64 2.5 times.
    """
    # Only libraries that are loaded are limited; these two packages have one each.
    import faiss  # noqa: F401, PLC0415 - commands that do not train need not wait for it
    import scipy.linalg  # noqa: F401, PLC0415

    with threadpool_limits(1, "blas"):
        yield


@dataclass(frozen=True)
class Split:
    """The training rows, the held-out rows, and the tags that training may use.

    `visible_tags` is bool[N, C]; rows whose labels are hidden have no tag.
    """

    training: Rows
    validation: Rows
    visible_tags: Tags

    @property
    def labelled(self) -> Rows:
        """The rows whose labels training may use."""
        return np.flatnonzero(self.visible_tags.any(axis=1))


@dataclass(frozen=True)
class Trained:
    """The written encoder, its validation figures, its classifier, warnings, and what it chose."""

    encoder: Encoder
    labelled_ids: tuple[str, ...]
    validation: Mapping[str, Any]
    classifier: Classifier | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def split(data: TrainingData, recipe: LabelledRecipe) -> Split:
    """Hold out a share of the labelled documents, and keep the labels of a share of the rest."""
    rng = np.random.default_rng(recipe.seed)
    training, validation = hold_out(data.tags, recipe.validation_share, rng)
    tags = data.tags.copy()
    tags[validation] = False
    return Split(training, validation, mask_labels(tags, recipe.label_fraction, rng))


def check_labels(data: TrainingData, parts: Split, validation_share: float) -> None:
    """Check that there are labels for training and, with a `validation_share`, for validation.

    Raises:
        TrainingDataError: if fewer than two classes have visible labels, or if `validation_share`
            is above 0 and no document was held out.
    """
    if len(data.classes) < 2:
        found = f"the documents have {counted(len(data.classes), 'distinct label')}"
        needed = "semi-supervised training needs at least two; ict learns from texts without labels"
        raise TrainingDataError(f"label: {found}; {needed}")
    n_classes = int(parts.visible_tags.any(axis=0).sum())
    if n_classes < 2 or (validation_share and not len(parts.validation)):
        found = (
            f"there are labels of {counted(n_classes, 'class', 'classes')} to train on, and"
            f" {counted(len(parts.validation), 'document')} held out"
        )
        raise TrainingDataError(f"label: {found}; more labelled documents are needed")


def choose_features(
    data: TrainingData,
    training: Rows,
    max_terms: int,
    weighting: str = "tf-idf",
    analyzer: str = VISIBLE.name,
    *,
    max_words: int = 1,
    min_documents: int = MIN_DOCUMENTS,
    summary_weight: float = 0.0,
) -> Features:
    """Return the features of the training documents: terms of texts, or unchanged vectors.

    A term has at most `max_words` words and must occur in at least `min_documents` texts. The
    `summary_weight` is that of :class:`hummingbit.encoder.text_features.TextFeatures`.

    Raises:
        TrainingDataError: if no term does.
        AnalyzerError: if no analyzer has the name `analyzer`.
    """
    inputs = data.take(training)
    if isinstance(inputs, np.ndarray):
        return VectorFeatures(dimension=inputs.shape[1])
    begin_stage(f"choosing terms of {len(inputs):,} texts")
    return fit_text_features(
        inputs,
        max_terms,
        weighting,
        Analyzer.from_name(analyzer),
        max_words=max_words,
        min_documents=min_documents,
        summary_weight=summary_weight,
    )


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
    vectors: Floats | None = None,
    overwrite: bool = False,
) -> Trained:
    """Evaluate `encoder` on the held-out documents and write its artifact.

    `about` is further metadata. `soft_labels`, float32[N, C], are the distributions over classes of
    the training rows that the encoder learned from; the classifier of the baseline is fitted to
    them too. An encoder with a class code contains its classifiers, so none is fitted. `vectors`,
    float32[N, D], are the features of all documents where they are known, so that a language model
    need not read the documents again.
    """
    measured, known = encoder, data
    of_vectors = None
    if vectors is not None and encoder.words is not None:
        texts = [str(text) for text in data.inputs]
        measured = replace(encoder, features=ReadTexts(texts, vectors))
        of_vectors = replace(data, inputs=vectors)
    elif vectors is not None:
        measured = replace(encoder, features=VectorFeatures(vectors.shape[1]))
        known = replace(data, inputs=vectors)
    begin_stage("measuring the codes and the classifier baseline")
    classifier = None
    if encoder.class_code is None:
        classifier = fit_classifier(
            measured.features,
            known.take(parts.training),
            parts.visible_tags[parts.training],
            soft_labels,
            seed=int(settings["seed"]),
        )
    figures = validate(
        ClassifierReference(measured, classifier),
        training=known.labelled(parts.labelled),
        database=known.known(parts.training),
        queries=known.labelled(parts.validation),
        texts=_texts(data, parts),
        vectors=None if of_vectors is None else _known_and_held_out(of_vectors, parts),
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
    examples = parts.training[:_EXAMPLES]
    codes_of_examples = measured.encode(known.take(examples))
    warnings = (*few_warnings(len(data)), *collapse_warnings(codes_of_examples))
    if vectors is not None:
        margins = measured.least_margins(known.take(examples))
        examples = examples[np.argsort(-margins, kind="stable")[:GOLDEN_INPUTS]]
    written = write_artifact(
        out,
        replace(encoder, metadata=metadata),
        data.take(examples),
        extra_files={
            **({} if classifier is None else {CLASSIFIER: classifier_bytes(classifier)}),
            LABELLED_IDS: json.dumps(labelled_ids, ensure_ascii=False, indent=0) + "\n",
            LEARNED: learned_bytes(data.take(parts.training)),
            METRICS: json.dumps({"validation": figures, "epochs": history or []}, indent=2) + "\n",
        },
        overwrite=overwrite,
    )
    return Trained(written, labelled_ids, figures, classifier, warnings)


def few_warnings(n_documents: int) -> tuple[str, ...]:
    """Return a warning if there are fewer than :data:`_FEW_DOCUMENTS`, else nothing."""
    if n_documents >= _FEW_DOCUMENTS:
        return ()
    found = f"the codes were learned from {counted(n_documents, 'document')}"
    hint = f"give {_FEW_DOCUMENTS} or more, or search by words alone, which learns nothing"
    return (f"{found}, which say little about others; {hint}",)


def collapse_warnings(codes: Codes) -> tuple[str, ...]:
    """Return a warning if there is at most one distinct code for fifty documents, else nothing."""
    n_distinct = len(np.unique(codes, axis=0))
    if len(codes) < _DOCUMENTS_PER_CODE or n_distinct * _DOCUMENTS_PER_CODE > len(codes):
        return ()
    found = f"{len(codes):,} documents have {counted(n_distinct, 'distinct code')}"
    return (f"{found}; a search cannot tell them apart. For texts, ict may do better",)


def _texts(data: TrainingData, parts: Split) -> tuple[list[str], list[str]] | None:
    """Return the texts of the training documents whose labels are known, and those held out.

    The result is None if the documents are not texts.
    """
    if not data.is_text:
        return None
    documents, held_out = _known_and_held_out(data, parts)
    return list(map(str, documents.inputs)), list(map(str, held_out.inputs))


def _known_and_held_out(data: TrainingData, parts: Split) -> tuple[Labelled, Labelled]:
    return data.known(parts.training), data.labelled(parts.validation)


def validate(
    reference: ClassifierReference,
    *,
    training: Labelled,
    database: Labelled,
    queries: Labelled,
    texts: tuple[list[str], list[str]] | None = None,
    vectors: tuple[Labelled, Labelled] | None = None,
) -> dict[str, Any]:
    """Evaluate the encoder and what its codes should beat; return the figures as JSON values.

    Relevance is by the true labels, whether training used them or not. Without labelled queries
    there are no figures. Without labels of two classes, or with more classes than a code can have
    bits, there is no classifier baseline. With `texts`, those of the database and of the queries,
    there is BM25, and for vectors of one length, or with the `vectors` of texts, their cosine; both
    are measured with at most 1,000
    queries, drawn at random, and up to 100,000 documents. ``comparison`` has the sentences of
    :func:`hummingbit.evaluation.significance.compare_with_baselines`.
    """
    if not len(queries):
        return {}
    evaluation = evaluate_encoder(reference.encoder, database, queries, _METRICS)
    new, _ = split_learned(reference.encoder.learned.contain(queries.inputs))
    queries = queries.take(new)
    baseline = None
    if has_baseline(reference, training):
        baseline = classifier_baseline(reference, training, database, queries, _METRICS)
    soft = soft_class_scores(reference.encoder, database, queries, _METRICS)
    chosen = np.arange(len(queries))
    if len(queries) > _MOST_QUERIES:
        chosen = np.sort(np.random.default_rng(0).permutation(chosen)[:_MOST_QUERIES])
    others: dict[str, Evaluation] = {}
    if len(database) <= _MOST_DOCUMENTS:
        asked = queries.take(chosen.tolist())
        if texts is not None:
            words = Labelled([texts[1][new[row]] for row in chosen], asked.labels)
            others[BM25] = bm25(Labelled(texts[0], database.labels), words, _METRICS)
        if vectors is not None:
            asked_vectors = vectors[1].take(new).take(chosen.tolist())
            others[VECTORS] = vector_cosine(vectors[0], asked_vectors, _METRICS)
        elif isinstance(database.inputs, np.ndarray) and database.inputs.ndim == 2:
            others[VECTORS] = vector_cosine(database, asked, _METRICS)
    rivals = {} if soft is None else {SOFT_CLASS_SCORES: soft.take(chosen)}
    sentences = compare_with_baselines("codes", evaluation.take(chosen), rivals | others)
    return {
        **evaluation.to_dict(),
        "classifier_baseline": baseline and baseline.to_dict(),
        **({} if soft is None else {"soft_class_scores": soft.to_dict()}),
        **{name: evaluation.to_dict() for name, evaluation in others.items()},
        "comparison": sentences,
    }
