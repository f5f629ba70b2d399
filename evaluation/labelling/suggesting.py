"""Which documents of a collection to label next, and which answers to a query to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.labelling.places import Places, PlacesCache
from evaluation.labelling.pooling import POOLING_METHODS, Pooled, pool
from evaluation.labelling.sampling import METHODS, Pool, suggest
from foundation.errors import InputError
from index.annotations.annotation_records import agreed_labels
from index.collection import Collection
from index.payload_labels import labels_of
from index.rankings.protocol import ASYMMETRIC, BM25, HAMMING, HYBRID
from index.records import Query, StoredDocument

MOST_GUESSES = 3
# A classifier takes memory for each class of each document: a field of titles must not fill it.
MOST_CLASSES = 1000
SECOND_OPINION = "second-opinion"
SUGGESTION_METHODS = (*METHODS, SECOND_OPINION)
POOLED_RANKINGS = (HAMMING, ASYMMETRIC, BM25, HYBRID)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A document to label, what a classifier of the labels so far takes it for, and its bucket.

    `guesses` are (label, probability), likeliest first; `bucket` counts the documents of its code.
    """

    document: StoredDocument
    guesses: tuple[tuple[str, float], ...]
    bucket: int


@dataclass(frozen=True, slots=True)
class LabelledPool:
    """The documents to choose among, the pool that they make, and the names of its classes."""

    found: Places
    pool: Pool
    classes: tuple[str, ...]


def known_labels(
    documents: Sequence[StoredDocument],
    given: Mapping[str, tuple[str, ...]],
    label_field: str | None,
) -> dict[str, tuple[str, ...]]:
    """Return the labels of `documents` by id: those `given`, else the payload's `label_field`.

    Raises:
        InputError: if the field holds something that is no label in some document.
    """
    known: dict[str, tuple[str, ...]] = {}
    if label_field is not None:
        for document in documents:
            if labels := labels_of(document.payload, label_field):
                known[document.id] = labels
    known.update(given)
    return known


def labelled_pool(
    collection: Collection,
    cache: PlacesCache,
    given: Mapping[str, tuple[str, ...]],
    label_field: str | None = None,
) -> LabelledPool:
    """Return what to choose among. A document of several labels counts by its first.

    `given` has the labels that people agree on, by id, as
    :func:`~index.annotations.annotation_records.agreed_labels` returns them. Of more than 1,000
    classes, only the most frequent count; documents of other classes are passed over.

    Raises:
        InputError: as :func:`known_labels`.
        StoreError: if the collection cannot be read.
    """
    found = cache.of(collection, given)
    known = known_labels(found.documents, given, label_field)
    # Whoever said that none of the classes fits has looked at the document, too.
    first = [known[one.id][:1] if one.id in known else None for one in found.documents]
    counted = Counter(labels[0] for labels in first if labels)
    frequent = sorted(counted, key=lambda name: (-counted[name], name))[:MOST_CLASSES]
    names = tuple(sorted(frequent))
    number = {name: at for at, name in enumerate(names)}
    rows = [at for at, labels in enumerate(first) if labels and labels[0] in number]
    rare = [at for at, labels in enumerate(first) if labels and labels[0] not in number]
    classes = np.array([number[first[at][0]] for at in rows], dtype=np.int64)  # type: ignore[index]
    labelled = np.array(rows, dtype=np.int64)
    passed = np.array(rare, dtype=np.int64)
    pool_ = Pool(found.places, found.buckets, labelled, classes, len(names), passed)
    return LabelledPool(found, pool_, names)


def suggest_documents(
    collection: Collection,
    cache: PlacesCache,
    n: int,
    method: str,
    *,
    label_field: str | None = None,
    who: str | None = None,
    without: Sequence[str] = (),
) -> tuple[list[Suggestion], LabelledPool]:
    """Return at most `n` documents to label next, the most useful first, and what they are of.

    Documents whose ids are in `without`, such as those that somebody skipped, are passed over, and
    so are those that anybody has looked at. With :data:`SECOND_OPINION` it is those that others
    labelled and `who` did not, the least likely labels first.

    Raises:
        InputError: if there is no such method, or as :func:`known_labels`.
        StoreError: if the collection cannot be read.
    """
    if method not in SUGGESTION_METHODS:
        known = ", ".join(SUGGESTION_METHODS)
        raise InputError("method", f"is {method[:40]!a}; it must be one of {known}")
    records = collection.annotations.labels()
    labelled = labelled_pool(collection, cache, agreed_labels(records), label_field)
    documents, pool_ = labelled.found.documents, labelled.pool
    guessed = pool_.probabilities()
    left_out = {*without, *(one.id for one in records)}
    if method == SECOND_OPINION:
        left_out = {*without, *(one.id for one in records if one.who == who)}
        others = {one.id for one in records if one.who != who}
        doubted = np.ones(len(documents))
        if guessed is not None:
            doubted[pool_.labelled] = guessed[pool_.labelled, pool_.classes]
        order = np.argsort(doubted, kind="stable").tolist()
        rows = [row for row in order if documents[row].id in others]
    else:
        looked_at = [at for at, one in enumerate(documents) if one.id in left_out]
        passed = np.union1d(pool_.passed, np.array(looked_at, dtype=np.int64))
        rows = suggest(replace(pool_, passed=passed), n, method).tolist()
    chosen = [row for row in rows if documents[row].id not in left_out][:n]
    sizes = np.bincount(labelled.found.buckets)
    suggestions = []
    for row in chosen:
        guesses: tuple[tuple[str, float], ...] = ()
        if guessed is not None:
            best = np.argsort(-guessed[row], kind="stable")[:MOST_GUESSES].tolist()
            guesses = tuple((labelled.classes[at], float(guessed[row][at])) for at in best)
        bucket = int(sizes[labelled.found.buckets[row]])
        suggestions.append(Suggestion(documents[row], guesses, bucket))
    return suggestions, labelled


def suggestions_to_json(
    method: str, suggestions: Sequence[Suggestion], labelled: LabelledPool
) -> dict[str, Any]:
    """Return what :class:`service.schemas.labels.labels.SuggestedLabels` describes."""
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
    collection: Collection, query: str, depth: int, method: str, judged: Sequence[str] = ()
) -> tuple[list[Pooled], Mapping[str, int]]:
    """Pool the best `depth` answers of each ranking that the query can be asked with.

    Documents with an id in `judged` are left out. Beside the pool stands how many answers each
    ranking gave.

    Raises:
        InputError: if there is no such method, the depth or the query cannot be, or the collection
            takes no texts.
    """
    if method not in POOLING_METHODS:
        known = ", ".join(POOLING_METHODS)
        raise InputError("method", f"is {method[:40]!a}; it must be one of {known}")
    encoder = collection.encoder
    if encoder is None or encoder.kind != "text":
        raise InputError("query", f"collection {collection.name!a} takes no texts")
    encoded = collection.encode_queries([Query(text=query)])
    rankings = {}
    for ranking in POOLED_RANKINGS:
        found = collection.search(encoded, depth, ranking=ranking, with_cursor=False)
        rankings[ranking] = [hit.id for hit in found.hits[0]]
    left_out = set(judged)
    pooled = [one for one in pool(rankings, method) if one.id not in left_out]
    return pooled, {name: len(ids) for name, ids in rankings.items()}
