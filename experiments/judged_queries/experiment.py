"""Codes, BM25, TF-IDF and hybrids on real queries with judged answers.

The codes are learned from the documents alone; no query and no judgement is seen. Beside them stand
BM25, with and without stems, TF-IDF cosine, and ITQ codes of latent semantics, both with stems over
the whole vocabulary. A hybrid adds the standardised scores of BM25 with stems and, times a weight,
those of the codes. P-values are of the paired permutation test against BM25 with stems, Holm's
correction over the methods of a corpus.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from corpus.datasets import JUDGED, load_dataset, load_qrels
from encoder.encoder import Encoder
from evaluation.qrels import relevance_by_qrels
from evaluation.relevance import Relevance
from evaluation.result import Evaluation
from evaluation.scores import evaluate_by_score
from evaluation.significance.resampling import holm, permutation_test
from experiments.cells import trained_encoder
from experiments.judged_queries import compared_rankings
from experiments.judged_queries.compared_rankings import STEMS, WORDS, Scores
from experiments.parts import add_run_options
from experiments.result_tables import Record, print_table, write_records
from training.data import TrainingData, gather
from training.linear_codes import LINEAR_METHODS
from training.recipe import METHODS, LinearRecipe, Recipe

SUMMARY = "judged queries: codes, BM25, TF-IDF and hybrids on real searches"
CORPORA = tuple(name for name in JUDGED if name != "docstrings")
METRICS = ("nDCG@10", "Recall@100", "Success@10", "MRR")
BASELINE = "bm25, stems"


@dataclass(frozen=True)
class Corpus:
    """Documents, the queries that are judged, and what is relevant to them."""

    name: str
    data: TrainingData
    queries: list[str]
    relevance: Relevance

    @property
    def documents(self) -> list[str]:
        """The texts."""
        return list(self.data.inputs)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    learned = [*METHODS, *LINEAR_METHODS]
    parser.add_argument("--corpora", nargs="+", default=list(CORPORA), choices=JUDGED)
    parser.add_argument(
        "--split",
        default="queries",
        help="of the queries, such as queries-development; corpora without it take all theirs"
        " (default: %(default)s)",
    )
    parser.add_argument("--methods", nargs="+", default=[], choices=learned)
    parser.add_argument("--bits", type=int, nargs="+", default=[64], metavar="N")
    parser.add_argument(
        "--supervision",
        type=float,
        default=0.1,
        metavar="X",
        help="share of the labels shown to methods that learn from labels, where a corpus has some"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--analyzer",
        default="unicode",
        metavar="NAME",
        help="of the methods, such as unicode+english; ITQ of LSA has English stems"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--weight",
        type=float,
        default=0.3,
        metavar="W",
        help="of the codes in a hybrid (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics", nargs="+", default=list(METRICS[:2]), metavar="NAME", choices=METRICS
    )
    add_run_options(parser, "results/judged-queries", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rank every corpus in every way and print a table for each metric."""
    found: dict[str, dict[str, Evaluation]] = {}
    for name in args.corpora:
        corpus = read_corpus(name, args.split, args.data_root)
        found[name] = {
            method: evaluate_by_score([scores], corpus.relevance, METRICS)
            for method, scores in rank(corpus, args)
        }
    for metric in args.metrics:
        _print_metric(found, metric)
    if args.json:
        write_records(args.json, list(_records(found)))
    return 0


def read_corpus(name: str, split: str, data_root: Path | None) -> Corpus:
    """Read the documents and the judged queries of a data set.

    Raises:
        ReadError: if they cannot be read.
    """
    documents = list(load_dataset(name, "documents", data_root))
    qrels = load_qrels(name, split, data_root)
    taken = "queries" if qrels is None else split
    queries = list(load_dataset(name, taken, data_root))
    qrels = qrels or load_qrels(name, taken, data_root) or {}
    relevance, _ = relevance_by_qrels(
        qrels, [query.id for query in queries], [document.id for document in documents]
    )
    return Corpus(name, gather(documents), [query.text or "" for query in queries], relevance)


def rank(corpus: Corpus, args: argparse.Namespace) -> Iterator[tuple[str, Scores]]:
    """Yield the name of each ranking and its scores."""
    queries, documents = corpus.queries, corpus.documents
    lexical = compared_rankings.bm25(queries, documents, STEMS)
    yield "bm25", compared_rankings.bm25(queries, documents, WORDS)
    yield BASELINE, lexical
    yield "tf-idf, stems", compared_rankings.tfidf(queries, documents, STEMS)
    for n_bits in args.bits:
        by_distance, real = compared_rankings.itq_of_lsa(queries, documents, n_bits, seed=0)
        yield from _ways(f"itq of lsa {n_bits}", by_distance, real, lexical, args.weight)
    for method in args.methods:
        for n_bits in args.bits:
            encoders = [_encoder(corpus, method, n_bits, seed, args) for seed in range(args.seeds)]
            yield from _of_codes(f"{method} {n_bits}", encoders, corpus, lexical, args.weight)


def _of_codes(
    name: str, encoders: list[Encoder], corpus: Corpus, lexical: Scores, weight: float
) -> Iterator[tuple[str, Scores]]:
    queries, documents = corpus.queries, corpus.documents
    for seed, encoder in enumerate(encoders):
        run = name if len(encoders) == 1 else f"{name}, seed {seed}"
        by_distance, real = compared_rankings.of_codes(encoder, queries, documents)
        yield from _ways(run, by_distance, real, lexical, weight)


def _ways(
    name: str, by_distance: Scores, real: Scores, lexical: Scores, weight: float
) -> Iterator[tuple[str, Scores]]:
    yield f"{name}, hamming", by_distance
    yield f"{name}, asymmetric", real
    yield f"{name}, hybrid", compared_rankings.hybrid(lexical, real, weight)


def _encoder(
    corpus: Corpus, method: str, n_bits: int, seed: int, args: argparse.Namespace
) -> Encoder:
    common = {
        "n_bits": n_bits,
        "seed": seed,
        "validation_share": 0.0,
        "analyzer": args.analyzer,
    }
    recipe: Recipe | LinearRecipe
    parts = [corpus.name, method, str(n_bits), *args.analyzer.split("+")[1:]]
    if method in LINEAR_METHODS:
        recipe = LinearRecipe(method, **common)
    else:
        recipe = Recipe(method=method, supervision=args.supervision, **common)
        parts.append(f"{args.supervision:g}")
    name = "-".join([*parts, str(seed)])
    return trained_encoder(corpus.data, recipe, args.work_dir / name)


def _print_metric(found: Mapping[str, Mapping[str, Evaluation]], metric: str) -> None:
    """Print a row for each method: a corpus a column, marked where it differs from the baseline."""
    methods = list(next(iter(found.values())))
    p_values = {name: _p_values(systems, metric) for name, systems in found.items()}
    rows = []
    for method in methods:
        values = [systems[method].expected[metric] for systems in found.values()]
        marks = [_mark(p_values[name].get(method)) for name in found]
        cells = [f"{value:.3f}{mark}" for value, mark in zip(values, marks, strict=True)]
        rows.append([method, *cells, f"{mean(values):.3f}"])
    print(f"\n{metric}; * differs from {BASELINE} with p < 0.05, ** with p < 0.001 (Holm)\n")
    print_table(("ranking", *found, "mean"), rows)


def _p_values(systems: Mapping[str, Evaluation], metric: str) -> dict[str, float]:
    values = {name: np.asarray(one.expected_per_query[metric]) for name, one in systems.items()}
    others = [name for name in values if name != BASELINE]
    raw = [permutation_test(values[name], values[BASELINE]) for name in others]
    return dict(zip(others, holm(raw), strict=True))


def _mark(p_value: float | None) -> str:
    if p_value is None or p_value >= 0.05:
        return ""
    return "**" if p_value < 0.001 else "*"


def _records(found: Mapping[str, Mapping[str, Evaluation]]) -> Iterator[Record]:
    for corpus, systems in found.items():
        for method, one in systems.items():
            yield {"corpus": corpus, "ranking": method, **one.expected}
