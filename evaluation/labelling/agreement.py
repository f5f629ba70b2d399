"""How far two people agree beyond chance: Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from foundation.slices import checkpoint
from index.annotations.annotation_records import DocumentLabel, Judgement

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
    n_equal = sum(one == other for one, other in pairs)
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
        checkpoint()
        ours, theirs = by_person[first], by_person[second]
        pairs = [(ours[item], theirs[item]) for item in ours if item in theirs]
        if pairs:
            observed = sum(a == b for a, b in pairs) / len(pairs)
            kappa = cohen_kappa(pairs)
            agreements.append(Agreement((first, second), on, len(pairs), observed, kappa))
    return agreements
