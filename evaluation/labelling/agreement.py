"""How far two people agree beyond chance: Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from foundation.slices import checkpoint
from index.annotations.annotation_records import DocumentLabel, Judgement

MOST_PEOPLE = 50
"""Of more, those are compared who said most."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two people, the items that both of them looked at, and how far they agree.

    `observed` is the share of items on which they agree. `kappa` is None where both gave one and
    the same answer throughout: then agreement by chance is certain, and kappa has no value.
    """

    who: tuple[str, str]
    on: str
    items: int
    observed: float
    kappa: float | None


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return κ = (p_o − p_e) / (1 − p_e) of two people's answers to the same items.

    p_o is the share of items with the same answer, p_e = Σ_c p_1(c) p_2(c) the share expected if
    each answered by chance in their own proportions. None where p_e is 1. Source: Cohen, "A
    Coefficient of Agreement for Nominal Scales" (1960).

    Raises:
        ValueError: if there is no item.
    """
    if not pairs:
        raise ValueError("there is no item that both people looked at")
    n = len(pairs)
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    # In whole numbers, so that certain agreement by chance is recognised.
    by_chance = sum(count * second[answer] for answer, count in first.items())
    if by_chance == n * n:
        return None
    same = sum(one == other for one, other in pairs)
    return (same * n - by_chance) / (n * n - by_chance)


def agreement_on_labels(records: Iterable[DocumentLabel]) -> list[Agreement]:
    """Return how far each two people agree on labels; an answer is a set of labels."""
    answers = ((one.who, one.id, (frozenset(one.labels), one.grade > 0)) for one in records)
    return _agreements("labels", answers)


def agreement_on_judgements(records: Iterable[Judgement]) -> list[Agreement]:
    """Return how far each two people agree on judgements; an answer is whether it is relevant."""
    answers = ((one.who, (one.query, one.id), one.grade > 0) for one in records)
    return _agreements("judgements", answers)


def _agreements(on: str, answers: Iterable[tuple[str, Hashable, Hashable]]) -> list[Agreement]:
    by_person: dict[str, dict[Hashable, Hashable]] = {}
    for who, item, answer in answers:
        by_person.setdefault(who, {})[item] = answer
    found = []
    busiest = sorted(by_person, key=lambda who: (-len(by_person[who]), who))[:MOST_PEOPLE]
    for one, other in combinations(sorted(busiest), 2):
        checkpoint()
        given, again = by_person[one], by_person[other]
        pairs = [(given[item], again[item]) for item in given if item in again]
        if pairs:
            observed = sum(a == b for a, b in pairs) / len(pairs)
            kappa = cohen_kappa(pairs)
            found.append(Agreement((one, other), on, len(pairs), observed, kappa))
    return found
