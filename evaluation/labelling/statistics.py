"""Statistics of the labels of a collection: counts, agreement, and the gain of further ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hummingbit.evaluation.labelling.suggestions import (
    Pool,
    VectorCache,
    class_scores,
    labelled_pool,
)
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.collection import Collection
from hummingbit.index.filters import Exists, HasId, Or
from hummingbit.index.store.annotations import DocumentLabel, Judgement, agreed_labels

# How far two people agree beyond chance: Cohen's kappa.


MAX_PEOPLE = 50
"""Of more people, only those with the most answers are compared."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two people agree on the items that both have answered.

    `observed` is the share of items on which they agree. `kappa` is None where both gave the same
    single answer to every item: agreement by chance is then certain, and kappa is undefined.
    """

    who: tuple[str, str]
    on: str
    items: int
    observed: float
    kappa: float | None


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return κ = (p_o − p_e) / (1 − p_e) of two people's answers to the same items.

    p_o is the share of items with the same answer, p_e = Σ_c p_1(c) p_2(c) the share expected if
    both answered at random, each in their own proportions. None where p_e is 1. Source: Cohen, "A
    Coefficient of Agreement for Nominal Scales" (1960).

    Raises:
        ValueError: if there is no item.
    """
    if not pairs:
        raise ValueError("pairs is empty; at least one item with two answers is needed")
    n = len(pairs)
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    # In integers, so that the test for certain agreement by chance is exact.
    by_chance = sum(count * second[answer] for answer, count in first.items())
    if by_chance == n * n:
        return None
    n_equal = sum(first == second for first, second in pairs)
    return (n_equal * n - by_chance) / (n * n - by_chance)


def agreement_on_labels(records: Iterable[DocumentLabel]) -> list[Agreement]:
    """Return how far each pair of people agrees on labels; an answer is a set of labels."""
    answers = (
        (record.who, record.id, (frozenset(record.labels), record.grade > 0)) for record in records
    )
    return _agreements("labels", answers)


def agreement_on_judgements(records: Iterable[Judgement]) -> list[Agreement]:
    """Return how far each pair of people agrees on judgements, relevant or not."""
    answers = ((record.who, (record.query, record.id), record.grade > 0) for record in records)
    return _agreements("judgements", answers)


def _agreements(on: str, answers: Iterable[tuple[str, Hashable, Hashable]]) -> list[Agreement]:
    by_person: dict[str, dict[Hashable, Hashable]] = {}
    for who, item, answer in answers:
        by_person.setdefault(who, {})[item] = answer
    agreements = []
    busiest = sorted(by_person, key=lambda who: (-len(by_person[who]), who))[:MAX_PEOPLE]
    for first, second in combinations(sorted(busiest), 2):
        check_cancelled()
        ours, theirs = by_person[first], by_person[second]
        pairs = [(ours[item], theirs[item]) for item in ours if item in theirs]
        if pairs:
            observed = sum(a == b for a, b in pairs) / len(pairs)
            kappa = cohen_kappa(pairs)
            agreements.append(Agreement((first, second), on, len(pairs), observed, kappa))
    return agreements


# How much another label is expected to gain: a power law fitted to the learning curve so far.
#
# Source: Figueroa et al., "Predicting Sample Size Required for Classification Performance" (2012).


FOLDS = 5
SHARES = (0.25, 0.5, 0.75, 1.0)
MIN_LABELS = 20
MAX_LABELS = 5000


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    """The accuracy of a classifier of the labels, and what one more label would add to it.

    `curve` holds (labels, accuracy). `per_label` is the slope of the fitted curve at its end.
    `labels_to_one_percent` is how many more labels the fitted curve needs to rise by 0.01; None
    where it no longer rises.
    """

    accuracy: float
    per_label: float
    labels_to_one_percent: int | None
    curve: tuple[tuple[int, float], ...]


def expected_gain(pool: Pool) -> ExpectedGain | None:
    """Fit error = a · n^−b to five-fold cross-validation with shares of the labels.

    Of more than :data:`MAX_LABELS`, so many at random are read. Returns None below 20 labels or two
    classes. Documents that were labelled because they are hard
    are harder than the rest, so the accuracy is usually a lower bound.
    """
    if len(pool.labelled) < MIN_LABELS or len(np.unique(pool.classes)) < 2:
        return None
    order = np.random.default_rng(0).permutation(len(pool.labelled))[:MAX_LABELS]
    n_labels = len(order)
    vectors = pool.vectors[pool.labelled]
    curve = []
    for share in SHARES:
        n_correct, sizes = 0, []
        for fold in range(FOLDS):
            check_cancelled()
            held_out = order[fold::FOLDS]
            training = np.delete(order, np.s_[fold::FOLDS])
            # The order is random, so the first rows are a random share.
            training = training[: max(2, round(share * len(training)))]
            scores = class_scores(vectors, training, pool.classes[training], pool.n_classes)
            predicted = scores[held_out].argmax(axis=1)
            n_correct += int((predicted == pool.classes[held_out]).sum())
            sizes.append(len(training))
        curve.append((round(float(np.mean(sizes))), n_correct / n_labels))
    return _extrapolate(curve)


def _extrapolate(curve: list[tuple[int, float]]) -> ExpectedGain:
    sizes = np.array([size for size, _ in curve], dtype=np.float64)
    # An error of 0 has no logarithm; it counts as half a mistake over all labels.
    errors = np.maximum([1 - accuracy for _, accuracy in curve], 0.5 / curve[-1][0])
    slope, _ = np.polyfit(np.log(sizes), np.log(errors), 1)
    decay = max(0.0, -float(slope))
    last, error = float(sizes[-1]), float(errors[-1])
    more_labels = None
    if decay > 0 and error > 0.01:
        factor = (error / (error - 0.01)) ** (1 / decay)
        more_labels = round(min(last * (factor - 1), 1e9))
    return ExpectedGain(curve[-1][1], error * decay / last, more_labels, tuple(curve))


# Statistics of the labels of a collection: counts, agreement, and the expected gain.


def _count_labelled(collection: Collection, by_people: set[str], label_field: str | None) -> int:
    """Return how many documents people labelled, or have a label in the field of the payload."""
    if label_field is None:
        return len(by_people)
    fields = (label_field, "labels") if label_field == "label" else (label_field,)
    people = (HasId(tuple(sorted(by_people))),) if by_people else ()
    return collection.count(Or((*map(Exists, fields), *people)))


def label_statistics(
    collection: Collection, cache: VectorCache, label_field: str | None = None
) -> dict[str, Any]:
    """Return the fields of :class:`hummingbit.service.schemas.labels.LabelStats`.

    Raises:
        InputError: if the label field of a document holds something that is not a label.
        StoreError: if the collection cannot be read.
    """
    labels, judgements = collection.annotations.labels(), collection.annotations.judgements()
    agreed = agreed_labels(labels)
    label_counts = Counter(
        label for document_labels in agreed.values() for label in document_labels
    )
    labels_by = Counter(label.who for label in labels)
    judgements_by = Counter(judgement.who for judgement in judgements)
    gain = expected_gain(labelled_pool(collection, cache, agreed, label_field).pool)
    agreement = [*agreement_on_labels(labels), *agreement_on_judgements(judgements)]
    return {
        "documents": len(collection),
        "labelled": _count_labelled(collection, {label.id for label in labels}, label_field),
        "labels": [
            {"label": label, "documents": n}
            for label, n in sorted(label_counts.items(), key=lambda item: (-item[1], item[0]))
        ],
        "judgements": len(judgements),
        "queries": len({judgement.query for judgement in judgements}),
        "people": [
            {"who": who, "labels": labels_by[who], "judgements": judgements_by[who]}
            for who in sorted({*labels_by, *judgements_by})
        ],
        "agreement": [{**asdict(pair), "who": list(pair.who)} for pair in agreement],
        "expected_gain": None if gain is None else asdict(gain),
    }
