"""Confidence: whether it is the share of hits that are right, and low where nothing is right.

The corpora are six with judged queries and the docstrings of the demo with its everyday questions.
Each has an encoder by the recipe of ``hummingbit quickstart``, once for each seed, or with
``--shipped`` the encoder that ships. The queries are

- the judged ones, and two to four neighbouring words of them, for which the same documents count as
  right;
- four kinds that nothing answers: questions of the other corpora, whole and shortened; half a
  question of the corpus joined to half a question of another; words of documents drawn at random;
  and letters drawn at random.

The first ten hits of each ranking count. The weights of the features are fitted to all corpora but
the one that is measured. "ECE" is the expected calibration error of the hits of whole judged
queries in ten bins of equal size, "Brier" their mean squared error, and "best" the same error if
the share of right hits were known and given to each. "AUC" is the probability that the first hit of
a judged query has a higher confidence than that of a query that nothing answers, for whole and for
shortened judged queries. ± is the deviation over the corpora.

``--fit`` prints the weights of :mod:`hummingbit.index.confidence`, fitted to all corpora.
Collections are kept in the folder of ``--work-dir`` and reused.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from experiments.docstring_codes import RECIPE
from experiments.parts import add_choices, add_run_options
from experiments.result_tables import Record, save_records
from hummingbit.corpus.document import Document
from hummingbit.corpus.named_sets import load_dataset, load_qrels
from hummingbit.encoder.codes import code_from_hex
from hummingbit.encoder.recipes import BaseRecipe
from hummingbit.index.catalog import shipped_encoder
from hummingbit.index.collection import Collection
from hummingbit.index.confidence import OF_BOTH, OF_CODES, OF_WORDS, Evidence
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.ingestion import ingest
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.names import HYBRID
from hummingbit.index.rankings import (
    AsymmetricRanking,
    Bm25Ranking,
    HammingRanking,
    HybridRanking,
    NamedRanking,
)
from hummingbit.index.records import Query
from hummingbit.training.data import TrainingData, gather
from hummingbit.training_methods import recipe_for_search, train_by

SUMMARY = "confidence of hits beside the share that is right, and of queries without an answer"
DOCSTRINGS = "docstrings"
CORPORA = ("cranfield", "medline", "cacm", "cisi", "nfcorpus", "npl", DOCSTRINGS)
N_BITS, K, N_BINS = 64, 10, 10
SHIPPED = -1
"""Stands for the seed of the encoder that ships."""
MOST_JUDGED, OF_EACH_OTHER, OF_EACH_KIND = 120, 10, 60
WHOLE, SHORT = "judged", "shortened"
UNANSWERED = ("other", "other, short", "mixed", "scrambled", "letters")
# Judged queries and others weigh the same, and so do all corpora.
SHARES = {
    WHOLE: 0.35,
    SHORT: 0.35,
    "other": 0.07,
    "other, short": 0.07,
    "mixed": 0.07,
    "scrambled": 0.07,
    "letters": 0.02,
}
# Nobody asks what the demo's documents answer: some of their words are in it.
ABSENT = ("parse json", "read a zip file", "asdf qwer", "connect to a database", "send an email")
L2 = 1e-3
_WORD = re.compile(r"[^\W\d_][\w-]+")

Floats = npt.NDArray[np.float64]


class Judged(NamedTuple):
    """A query, what kind it is of, and the ids of its right answers."""

    kind: str
    text: str
    answers: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Hits:
    """The first hits of a query: their features, and which of them are right."""

    kind: str
    text: str
    features: Floats
    right: npt.NDArray[np.bool_]


Measured = dict[str, list[Hits]]
"""The hits of all queries of a corpus, by ranking."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_choices(parser, "--corpora", CORPORA, "the corpora")
    parser.add_argument("--fit", action="store_true", help="print the weights, fitted to all")
    parser.add_argument(
        "--shipped",
        action="store_true",
        help="with the encoder that ships in place of trained ones",
    )
    add_run_options(parser, "results/confidence", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure all corpora, and print the figures of each ranking or the fitted weights."""
    queries = {corpus: judged_queries(corpus, args.data_root) for corpus in CORPORA}
    measured: dict[tuple[str, int], Measured] = {}
    for corpus in args.corpora:
        for seed in [SHIPPED] if args.shipped else range(args.seeds):
            folder = args.work_dir / (f"{corpus}-shipped" if args.shipped else f"{corpus}-{seed}")
            measured[corpus, seed] = measure(corpus, seed, queries, folder, args.data_root)
    records: list[Record] = []
    for kind, rankings in KINDS.items():
        if args.fit:
            weights = fit(kind, [some[name] for some in measured.values() for name in rankings])
            print(f"{kind}: ({', '.join(f'{weight:.3f}' for weight in weights)})")
            continue
        for name in rankings:
            records += print_figures(name, kind, measured)
    save_records(args, records)
    return 0


# Corpora, their collections and queries.


def judged_queries(corpus: str, root: Path | None) -> list[Judged]:
    """Return the queries of a corpus that have an answer, and at most :data:`MOST_JUDGED`."""
    qrels = load_qrels(corpus, "queries", root) or {}
    judged = []
    for query in load_dataset(corpus, "queries", root):
        answers = frozenset(id_ for id_, grade in qrels.get(query.id, {}).items() if grade > 0)
        if answers and query.text:
            judged.append(Judged(WHOLE, query.text, answers))
    order = np.random.default_rng(0).permutation(len(judged))[:MOST_JUDGED]
    return [judged[position] for position in order.tolist()]


def open_collection(
    corpus: str, seed: int, out: Path, root: Path | None
) -> tuple[DataFolder, Collection]:
    """Open the collection of a corpus; train its encoder and make it if there is none."""
    if not out.exists():
        splits = ("train", "test") if corpus == DOCSTRINGS else ("documents",)
        documents = [document for split in splits for document in load_dataset(corpus, split, root)]
        documents = [document for document in documents if document.text and document.text.strip()]
        shipped = shipped_encoder() if seed == SHIPPED else None
        if shipped is not None:
            shutil.copytree(shipped, out / "encoders" / corpus)
        else:
            print(f"training an encoder of {corpus}, seed {seed}", flush=True)
            train_by(*recipe_of(corpus, documents, seed, root), out / "encoders" / corpus)
        with DataFolder(out, writable=True) as folder:
            collection = folder.create_collection(corpus, encoder=corpus)
            collection.set_ranking(HYBRID)
            ingest(collection, documents)
    folder = DataFolder(out, writable=False)
    collection = folder.collection(corpus)
    if not isinstance(collection, Collection):
        raise TypeError(f"{corpus} is not in the data folder")
    return folder, collection


def recipe_of(
    corpus: str, documents: Sequence[Document], seed: int, root: Path | None
) -> tuple[TrainingData, BaseRecipe]:
    """Return what an encoder learns from, and how."""
    if corpus == DOCSTRINGS:
        return gather(list(load_dataset(corpus, "train", root))), replace(RECIPE, seed=seed)
    data = gather(documents)
    return data, replace(recipe_for_search(data, N_BITS, has_labels=False), seed=seed)


class QueryMaker:
    """Makes queries that nothing answers, and short ones."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def shortened(self, judged: Judged) -> Judged:
        """Return two to four neighbouring words of a query."""
        words = _WORD.findall(judged.text)
        size = self._number(2, 5)
        start = self._number(0, max(1, len(words) - size + 1))
        kind = SHORT if judged.kind == WHOLE else "other, short"
        return judged._replace(kind=kind, text=" ".join(words[start : start + size]))

    def mixed(self, some: Sequence[Judged], others: Sequence[Judged]) -> Judged:
        """Return words of a question of the corpus among as many of another's."""
        size = self._number(1, 4)
        pair = (some[self._number(0, len(some))], others[self._number(0, len(others))])
        words = [word for document in pair for word in self._words(document.text, size)]
        return Judged("mixed", " ".join(self._rng.permutation(words).tolist()))

    def scrambled(self, texts: Sequence[str]) -> Judged:
        """Return words of as many documents."""
        size = self._number(2, 6)
        drawn = [texts[position] for position in self._rng.integers(0, len(texts), size).tolist()]
        return Judged("scrambled", " ".join(word for text in drawn for word in self._words(text)))

    def letters(self) -> Judged:
        """Return up to three words of random letters."""
        alphabet = list("abcdefghijklmnopqrstuvwxyz")
        sizes = [self._number(3, 9) for _ in range(self._number(1, 4))]
        words = ["".join(self._rng.choice(alphabet, size).tolist()) for size in sizes]
        return Judged("letters", " ".join(words))

    def _words(self, text: str, size: int = 1) -> list[str]:
        words = _WORD.findall(text)
        return [words[position] for position in self._rng.permutation(len(words))[:size].tolist()]

    def _number(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))


def make_queries(
    corpus: str, asked: dict[str, list[Judged]], texts: Sequence[str], seed: int
) -> Iterator[Judged]:
    """Yield the queries of a corpus, of all kinds."""
    make, own = QueryMaker(max(seed, 0)), asked[corpus]
    others = [query for name in CORPORA if name != corpus for query in asked[name][:OF_EACH_OTHER]]
    others = [Judged("other", query.text) for query in others]
    yield from own
    yield from (make.shortened(query) for query in own)
    yield from others
    yield from (make.shortened(query) for query in others)
    for _ in range(OF_EACH_KIND):
        yield make.mixed(own, others)
        yield make.scrambled(texts)
        yield make.letters()
    if corpus == DOCSTRINGS:
        yield from (Judged("absent", text) for text in ABSENT)


# The hits of every ranking and their features.


KINDS = {
    OF_CODES: ("hamming", "asymmetric"),
    OF_WORDS: ("bm25",),
    OF_BOTH: ("hybrid",),
}
"""The rankings of each kind of features."""


def measure(
    corpus: str, seed: int, asked: dict[str, list[Judged]], out: Path, root: Path | None
) -> Measured:
    """Return the first hits of all queries of a corpus, by each ranking."""
    folder, collection = open_collection(corpus, seed, out, root)
    with folder:
        documents = collection.all_documents()
        rows = np.array([document.row for document in documents], dtype=np.int64)
        codes = np.stack(
            [code_from_hex(document.code, collection.n_bits) for document in documents]
        )
        texts = [document.text or "" for document in documents]
        numbered = zip(rows.tolist(), texts, strict=True)
        words = LexicalIndex.build(0, ANALYZERS[DEFAULT_ANALYZER], numbered, forms=True)
        generation = IndexSnapshot.build(0, codes, rows)
        weight = collection.hybrid_weight
        rankings: dict[str, NamedRanking] = {
            "hamming": HammingRanking(generation),
            "asymmetric": AsymmetricRanking(generation),
            "bm25": Bm25Ranking(words),
            "hybrid": HybridRanking(generation, CodeMoments.of_codes(codes), words, weight),
        }
        ids = {document.row: document.id for document in documents}
        found: Measured = {name: [] for name in rankings}
        for judged in make_queries(corpus, asked, texts, seed):
            if not judged.text.strip():
                continue
            query = collection.encode_queries([Query(text=judged.text)])
            for name, ranking in rankings.items():
                is_found = not (query.is_unrecognized(0) and name in KINDS[OF_CODES])
                ranked = ranking.rank(query, K)[0] if is_found else None
                if ranked is None or not len(ranked.rows):
                    found[name].append(Hits(judged.kind, judged.text, NO_HITS, NO_HITS[:, 0] > 0))
                    continue
                scores = ranking.hit_scores(query, 0, ranked)
                evidence = ranking.evidence(query, 0, ranked)
                right = np.array([ids[row] in judged.answers for row in ranked.rows.tolist()])
                features = features_of(evidence, scores)
                found[name].append(Hits(judged.kind, judged.text, features, right))
    return found


NO_HITS: Floats = np.empty((0, 1))


def features_of(evidence: Evidence, scores: Sequence[float]) -> Floats:
    """Return the features of hits with these scores, ``float64[N, F]``."""
    return np.asarray(np.array(evidence.at_zero) + np.outer(scores, evidence.per_score))


# The fit, and the figures.


def fit(kind: str, groups: Sequence[Sequence[Hits]]) -> Floats:
    """Return the weights of a logistic regression, the intercept first.

    Each group counts the same, and within it the kinds of queries have their :data:`SHARES`. No
    weight is negative, unless it is that of the number of documents, the third feature of codes.
    """
    features, right, counts = [], [], []
    for group in groups:
        for asked, share in SHARES.items():
            some = [hits for hits in group if hits.kind == asked and len(hits.right)]
            if some:
                features.append(np.concatenate([hits.features for hits in some]))
                right.append(np.concatenate([hits.right for hits in some]))
                counts.append(np.full(len(right[-1]), share / len(right[-1]) / len(groups)))
    x, y, weights = (np.concatenate(parts) for parts in (features, right, counts))
    mean, deviation = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
    x = np.hstack([np.ones((len(x), 1)), (x - mean) / deviation])

    def loss(w: Floats) -> tuple[float, Floats]:
        logits = x @ w
        value = float(weights @ (np.logaddexp(0, logits) - y * logits) + L2 / 2 * w[1:] @ w[1:])
        gradient = x.T @ (weights * (sigmoid(logits) - y))
        gradient[1:] += L2 * w[1:]
        return value, gradient

    bounds = [(None, None), *[(0, None)] * len(mean)]
    if kind == OF_CODES:
        bounds[3] = (None, None)
    found = minimize(loss, np.zeros(x.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B").x
    slopes = found[1:] / deviation
    return np.concatenate([[found[0] - slopes @ mean], slopes])


def sigmoid(logits: Floats) -> Floats:
    """Return 1 / (1 + exp(-x))."""
    return np.exp(-np.logaddexp(0, -logits))


def confidence_of(weights: Floats, hits: Hits) -> Floats:
    """Return the confidence of each hit; 0 if there is none."""
    if not len(hits.right):
        return np.zeros(1)
    return sigmoid(weights[0] + hits.features @ weights[1:])


class Figures(NamedTuple):
    """What is measured on one corpus."""

    calibration_error: float
    brier: float
    best_constant: float
    right: float
    confidence: float
    auc: list[float]
    auc_short: list[float]


def figures(group: Sequence[Hits], weights: Floats) -> Figures:
    """Measure the confidence of hits by weights that were not fitted to them."""
    whole = [hits for hits in group if hits.kind == WHOLE and len(hits.right)]
    p = np.concatenate([confidence_of(weights, hits) for hits in whole])
    y = np.concatenate([hits.right for hits in whole]).astype(np.float64)
    bins = np.array_split(np.argsort(p, kind="stable"), N_BINS)
    error = sum(len(some) * abs(p[some].mean() - y[some].mean()) for some in bins) / len(p)
    firsts = {
        kind: np.array([confidence_of(weights, hits)[0] for hits in group if hits.kind == kind])
        for kind in SHARES
    }
    auc, auc_short = ([area(firsts[a], firsts[b]) for b in UNANSWERED] for a in (WHOLE, SHORT))
    constant = y.mean() * (1 - y.mean())
    brier = float(np.mean((p - y) ** 2))
    return Figures(float(error), brier, constant, y.mean(), p.mean(), auc, auc_short)


def area(high: Floats, low: Floats) -> float:
    """Return the probability that a number of `high` exceeds one of `low`; ties count half."""
    difference = np.sign(high[:, None] - low[None])
    return float((difference.mean() + 1) / 2)


def print_figures(name: str, kind: str, measured: dict[tuple[str, int], Measured]) -> list[Record]:
    """Print the figures of one ranking on every corpus, and their means; return a record each."""
    records: list[Record] = []
    print(f"\n{name}")
    heads = ("right", "mean conf.", "ECE", "Brier", "best")
    aucs = "  ".join(f"{kind:>12}" for kind in UNANSWERED)
    print(f"{'':<14}" + "".join(f"{head:>11}" for head in heads) + f"   AUC, whole/short: {aucs}")
    rows = []
    for (corpus, seed), group in measured.items():
        others = [
            some[auc]
            for (other, _), some in measured.items()
            if other != corpus
            for auc in KINDS[kind]
        ]
        weights = fit(kind, others)
        found = figures(group[name], weights)
        row = [found.right, found.confidence, found.calibration_error, found.brier]
        rows.append([*row, found.best_constant, *found.auc, *found.auc_short])
        _print_row(f"{corpus} {seed}", rows[-1])
        records.append({"ranking": name, "dataset": corpus, "seed": seed, **found._asdict()})
        for hits in group[name]:
            if hits.kind == "absent":
                print(f"  {hits.text!r}: {confidence_of(weights, hits)[0]:.2f}")
    _print_row("mean", np.mean(rows, axis=0).tolist())
    _print_row("±", np.std(rows, axis=0).tolist())
    return records


def _print_row(title: str, values: Sequence[float]) -> None:
    cells = "".join(f"{value:11.3f}" for value in values[:5])
    n = len(UNANSWERED)
    pairs = zip(values[5 : 5 + n], values[5 + n :], strict=True)
    print(f"{title:<14}{cells}{'':21}" + "  ".join(f"{a:>7.2f}/{b:.2f}" for a, b in pairs))
