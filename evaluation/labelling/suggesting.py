"""Which documents of a collection to label next, and which answers to a query to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.labelling.document_vectors import DocumentVectors, VectorCache
from evaluation.labelling.label_pool import Pool
from evaluation.labelling.pooling import POOLING_METHODS, PooledDocument, pool
from evaluation.labelling.sampling import METHODS, suggest
from foundation.errors import InputError, counted
from foundation.stages import begin_stage
from index.annotations.annotation_records import agreed_labels
from index.collection import Collection
from index.payload_labels import labels_of
from index.rankings.protocol import ASYMMETRIC, BM25, HAMMING, HYBRID
from index.records import Query, StoredDocument

MAX_GUESSES = 3
# A classifier needs memory for every class of every document. A field of titles, each a class of
# its own, must not exhaust it.
MAX_CLASSES = 1000
SECOND_OPINION = "second-opinion"
SUGGESTION_METHODS = (*METHODS, SECOND_OPINION)
POOLED_RANKINGS = (HAMMING, ASYMMETRIC, BM25, HYBRID)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A document to label, with the classifier's guesses and the size of its bucket.

    `guesses` holds (label, probability), likeliest first. `bucket` is the number of documents that
    have the same code.
    """

    document: StoredDocument
    guesses: tuple[tuple[str, float], ...]
    bucket: int


@dataclass(frozen=True, slots=True)
class LabelledPool:
    """Documents with their vectors, the pool that they form, and the names of its classes."""

    vectors: DocumentVectors
    pool: Pool
    classes: tuple[str, ...]


def known_labels(
    documents: Sequence[StoredDocument],
    agreed: Mapping[str, tuple[str, ...]],
    label_field: str | None,
) -> dict[str, tuple[str, ...]]:
    """Return labels by document id: those in `agreed`, else those in the payload's `label_field`.

    Raises:
        InputError: if the field of a document holds something that is not a label.
    """
    known: dict[str, tuple[str, ...]] = {}
    if label_field is not None:
        for document in documents:
            if labels := labels_of(document.payload, label_field):
                known[document.id] = labels
    known.update(agreed)
    return known


def labelled_pool(
    collection: Collection,
    cache: VectorCache,
    agreed: Mapping[str, tuple[str, ...]],
    label_field: str | None = None,
) -> LabelledPool:
    """Return the documents to choose from, with the labels so far.

    `agreed` has the labels that people agree on, by id, as
    :func:`~index.annotations.annotation_records.agreed_labels` returns them. Of several labels of a
    document, the first is its class. Of more than 1,000 classes, only the most frequent are used,
    and documents of the others are excluded.

    Raises:
        InputError: as :func:`known_labels`.
        StoreError: if the collection cannot be read.
    """
    vectors = cache.of(collection, agreed)
    known = known_labels(vectors.documents, agreed, label_field)
    first_labels = [next(iter(known.get(one.id, ())), None) for one in vectors.documents]
    counts = Counter(label for label in first_labels if label is not None)
    frequent = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_CLASSES]
    names = tuple(sorted(frequent))
    numbers = {name: number for number, name in enumerate(names)}
    labelled = [row for row, label in enumerate(first_labels) if label in numbers]
    rare = [
        row for row, label in enumerate(first_labels) if label in counts and label not in numbers
    ]
    pool_ = Pool(
        vectors.vectors,
        vectors.buckets,
        labelled=np.array(labelled, dtype=np.int64),
        classes=np.array([numbers[label] for label in first_labels if label in numbers], np.int64),
        n_classes=len(names),
        excluded=np.array(rare, dtype=np.int64),
    )
    return LabelledPool(vectors, pool_, names)


def suggest_documents(
    collection: Collection,
    cache: VectorCache,
    n: int,
    method: str,
    *,
    label_field: str | None = None,
    who: str | None = None,
    without: Sequence[str] = (),
) -> tuple[list[Suggestion], LabelledPool]:
    """Return at most `n` documents to label next, the most useful first, and their pool.

    Documents that anybody has labelled are left out, and so are the ids in `without`, such as those
    that somebody skipped. With :data:`SECOND_OPINION`, the documents are those that others labelled
    and `who` did not, those with the least likely labels first.

    Raises:
        InputError: if `method` is not in :data:`SUGGESTION_METHODS`, or as :func:`known_labels`.
        StoreError: if the collection cannot be read.
    """
    _check_method(method, SUGGESTION_METHODS)
    records = collection.annotations.labels()
    begin_stage(f"reading {counted(len(collection), 'document')}")
    labelled = labelled_pool(collection, cache, agreed_labels(records), label_field)
    documents, pool_ = labelled.vectors.documents, labelled.pool
    begin_stage(f"choosing {n:,} of them by {method}")
    probabilities = pool_.probabilities()
    excluded_ids = {*without, *(one.id for one in records)}
    if method == SECOND_OPINION:
        excluded_ids = {*without, *(one.id for one in records if one.who == who)}
        labelled_by_others = {one.id for one in records if one.who != who}
        likelihood = np.ones(len(documents))
        if probabilities is not None:
            likelihood[pool_.labelled] = probabilities[pool_.labelled, pool_.classes]
        order = np.argsort(likelihood, kind="stable").tolist()
        rows = [row for row in order if documents[row].id in labelled_by_others]
    else:
        excluded_rows = [row for row, one in enumerate(documents) if one.id in excluded_ids]
        excluded = np.union1d(pool_.excluded, np.array(excluded_rows, dtype=np.int64))
        rows = suggest(replace(pool_, excluded=excluded), n, method).tolist()
    rows = [row for row in rows if documents[row].id not in excluded_ids][:n]
    sizes = np.bincount(labelled.vectors.buckets)
    suggestions = []
    for row in rows:
        guesses: tuple[tuple[str, float], ...] = ()
        if probabilities is not None:
            best = np.argsort(-probabilities[row], kind="stable")[:MAX_GUESSES].tolist()
            guesses = tuple((labelled.classes[c], float(probabilities[row][c])) for c in best)
        bucket = int(sizes[labelled.vectors.buckets[row]])
        suggestions.append(Suggestion(documents[row], guesses, bucket))
    return suggestions, labelled


def suggestions_to_json(
    method: str, suggestions: Sequence[Suggestion], labelled: LabelledPool
) -> dict[str, Any]:
    """Return the fields of :class:`service.schemas.labels.labels.SuggestedLabels`."""
    documents = [
        {
            "id": one.document.id,
            "text": one.document.text,
            "payload": dict(one.document.payload),
            "code": one.document.code,
            "guesses": [{"label": label, "probability": p} for label, p in one.guesses],
            "bucket": one.bucket,
        }
        for one in suggestions
    ]
    return {
        "method": method,
        "documents": documents,
        "labelled": len(labelled.pool.labelled),
        "classes": list(labelled.classes),
    }


def pool_answers(
    collection: Collection, query: str, depth: int, method: str, judged_ids: Sequence[str] = ()
) -> tuple[list[PooledDocument], Mapping[str, int]]:
    """Pool the first `depth` hits of each of :data:`POOLED_RANKINGS`.

    Documents with an id in `judged_ids` are left out. Returns the pool, and how many hits each
    ranking found.

    Raises:
        InputError: if `method` is not in :data:`POOLING_METHODS`, `depth` or `query` is not valid,
            or the collection takes no texts.
    """
    _check_method(method, POOLING_METHODS)
    encoder = collection.encoder
    if encoder is None or encoder.kind != "text":
        raise InputError("query", f"collection {collection.name!r} takes no texts")
    encoded = collection.encode_queries([Query(text=query)])
    rankings = {}
    for ranking in POOLED_RANKINGS:
        results = collection.search(encoded, depth, ranking=ranking, with_cursor=False)
        rankings[ranking] = [hit.id for hit in results.hits[0]]
    excluded_ids = set(judged_ids)
    pooled = [one for one in pool(rankings, method) if one.id not in excluded_ids]
    return pooled, {name: len(ids) for name, ids in rankings.items()}


def _check_method(method: str, methods: Sequence[str] | Mapping[str, str]) -> None:
    if method not in methods:
        known = ", ".join(methods)
        raise InputError("method", f"is {method[:40]!r}; it must be one of {known}")
