"""Everyday queries for codes, product numbers, tags, negations and synonyms.

A hundred queries search about two thousand short texts: product lines, notes of faults, questions
on programs, and tickets. ``everyday_words.jsonl`` has each query with the texts that answer it, and
near misses: the same sentence about another product or another fault. The other texts are made by
:func:`background`, from a fixed seed, with product numbers, error codes and versions of the same
forms. An ITQ encoder is fitted to all texts, once for each seed.

"S@1" is the share of queries whose first hit answers them, "in ten" the share with an answer among
the first ten. A query that excludes a word misses if a text with that word is found.

Run as ``python -m experiments.everyday_words``; ``--misses`` prints the queries that miss.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from hummingbit import Collection, SemanticHasher

RANKINGS = ("bm25", "hybrid", "asymmetric")
FILE = Path(__file__).with_suffix(".jsonl")
SEED = 41


@dataclass(frozen=True)
class Everyday:
    """A query, the texts that answer it, and texts that nearly do."""

    kind: str
    query: str
    answers: Sequence[str]
    near: Sequence[str] = ()
    excluded: bool = False
    """Whether the near misses must not be found at all."""


QUERIES = [Everyday(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]

# Texts that have synonyms together, from which an encoder can learn them.
TOGETHER = (
    "Laptop or notebook: a notebook computer is another word for a laptop computer.",
    "A couch or sofa with a chaise: our sofa beds and couch beds.",
    "Mobile phone, cell phone and smartphone contracts compared.",
    "Vacuum cleaner, also called hoover, for carpets and floors.",
    "Broken or cracked glass of a phone is not covered.",
)

PRODUCTS = (
    "drill bolt pump hose lamp chair desk cable filter valve sensor battery charger mat".split()
)
TRAITS = (
    "black white grey steel zinc plastic sealed cordless heavy small large spare outdoor".split()
)
FAULTS = (
    "access is denied",
    "the disk is full",
    "the file is locked",
    "the host is unknown",
    "the key has expired",
    "the queue is stuck",
)
SYSTEMS = (
    "installer",
    "gateway",
    "database",
    "mail server",
    "browser",
    "printer",
    "router",
    "backup",
    "calendar",
    "payment module",
)
LANGUAGES = "Java Go Rust Python Ruby Kotlin Perl Scala".split()
OBJECTS = "list file map socket thread date string test class module".split()
VERBS = "read write sort copy close open parse compare cache log".split()


class Background:
    """Makes texts of products, faults, questions and tickets."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def texts(self, size: int) -> Iterator[str]:
        """Yield `size` texts."""
        makers = (self._product, self._fault, self._question, self._ticket)
        for _ in range(size):
            yield makers[self._number(0, len(makers))]()

    def _number(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))

    def _some(self, words: Sequence[str]) -> str:
        return words[self._number(0, len(words))]

    def _code(self) -> str:
        letters = "".join(self._some("ABCDEFGHKLMNPRSTUVWXZ") for _ in range(self._number(2, 4)))
        form = self._some(("{0}{1}{2}", "{0}-{1}{2}", "{0} {1}{2}", "{0}-{1}-{2}"))
        last = self._some(("", "", "Z", "XL", "v2"))
        return form.format(letters, self._number(100, 9999), last).rstrip("-")

    def _product(self) -> str:
        size = f"{self._number(5, 900)} x {self._number(5, 90)} mm"
        name = f"{self._some(TRAITS).title()} {self._some(PRODUCTS)} for {self._some(SYSTEMS)}"
        return f"{name}, {self._some(TRAITS)}, {size}. Order number {self._code()}."

    def _fault(self) -> str:
        number = self._some(
            (
                f"0x8{self._number(0, 16**7):07X}",
                f"E-{self._number(100, 999)}",
                f"ERR_{self._some(VERBS)}_{self._some(PRODUCTS)}".upper(),
                f"HTTP {self._number(400, 599)}",
            )
        )
        fault, system = self._some(FAULTS), self._some(SYSTEMS)
        return f"The {self._some(SYSTEMS)} fails with {number}: {fault}. Restart the {system}."

    def _question(self) -> str:
        version = f"{self._some(LANGUAGES)} {self._number(1, 20)}.{self._number(0, 12)}"
        other = f"{self._some(VERBS)}ing a {self._some(OBJECTS)}"
        verb, thing = self._some(VERBS), self._some(OBJECTS)
        return f"How do I {verb} a {thing} in {version} without {other}?"

    def _ticket(self) -> str:
        order = f"{self._number(1000, 9999)}-{self._number(1000, 9999)}"
        product = f"{self._some(TRAITS)} {self._some(PRODUCTS)}"
        tags = f"#{self._some(VERBS)} #{self._some(PRODUCTS)}"
        return f"Please {self._some(VERBS)} the {product} of order {order} {tags}"


def make_texts(size: int) -> list[str]:
    """Return all texts: the answers, the near misses and the background, in a random order."""
    rng = np.random.default_rng(SEED)
    known = [text for everyday in QUERIES for text in (*everyday.answers, *everyday.near)]
    texts = list(dict.fromkeys([*known, *TOGETHER, *Background(rng).texts(size)]))
    return [texts[position] for position in rng.permutation(len(texts)).tolist()]


def succeeds(everyday: Everyday, hits: Sequence[str], k: int) -> bool:
    """Tell whether an answer is among the first `k` texts found, and nothing excluded is."""
    found = set(hits[:k])
    if everyday.excluded and found.intersection(everyday.near):
        return False
    return bool(found.intersection(everyday.answers))


def main() -> None:
    """Print the figures of each ranking and kind of query."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=2000, help="other texts (default: 2000)")
    parser.add_argument("--seeds", type=int, default=3, help="encoders (default: 3)")
    parser.add_argument("--bits", type=int, default=64, help="(default: 64)")
    parser.add_argument("--misses", action="store_true", help="print the queries that miss")
    args = parser.parse_args()
    texts = make_texts(args.size)
    firsts: dict[str, list[float]] = {name: [] for name in RANKINGS}
    tens: dict[str, list[float]] = {name: [] for name in RANKINGS}
    for seed in range(args.seeds):
        for name, found in search_all(texts, args.bits, seed).items():
            firsts[name].append(
                mean(succeeds(everyday, found[everyday.query], 1) for everyday in QUERIES)
            )
            tens[name].append(
                mean(succeeds(everyday, found[everyday.query], 10) for everyday in QUERIES)
            )
            if args.misses and not seed:
                print_misses(name, found)
    print(f"{len(QUERIES)} queries, {len(texts):,} texts, {args.seeds} encoders, {args.bits} bits")
    for name in RANKINGS:
        print(f"{name:<12} S@1 {spread(firsts[name])}   in ten {spread(tens[name])}")


def search_all(texts: Sequence[str], bits: int, seed: int) -> dict[str, dict[str, list[str]]]:
    """Return by ranking and query the ten texts found first."""
    hasher = SemanticHasher(method="itq", n_bits=bits, random_state=seed).fit(texts)
    found: dict[str, dict[str, list[str]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Collection.create(folder, "everyday", encoder=hasher) as collection,
    ):
        collection.add(texts)
        for name in RANKINGS:
            hits = {
                everyday.query: collection.search(everyday.query, limit=10, ranking=name)
                for everyday in QUERIES
            }
            found[name] = {query: [hit.text or "" for hit in some] for query, some in hits.items()}
    return found


def print_misses(ranking: str, found: Mapping[str, Sequence[str]]) -> None:
    """Print the queries that the first hit does not answer."""
    for everyday in QUERIES:
        hits = found[everyday.query]
        if not succeeds(everyday, hits, 1):
            ranks = (str(at) for at, hit in enumerate(hits, 1) if hit in everyday.answers)
            first = next(iter(hits), "nothing")[:60]
            rank = next(ranks, "-")
            print(f"{ranking:<11}{everyday.kind:<10}{everyday.query:<36} rank {rank}: {first}")


def spread(values: Sequence[float]) -> str:
    """Return the mean of values and their standard deviation."""
    return f"{mean(values):.3f} ± {np.std(values):.3f}"


if __name__ == "__main__":
    main()
