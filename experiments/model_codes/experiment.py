"""Codes of a language model on real queries with relevance judgements.

The model reads the documents and the queries once; the vectors are kept in the folder of results.
The codes are those of :func:`hummingbit.training.model_codes.fit_head`, of each number of bits,
those of iterative quantization (ITQ), learned for each number of bits, those of
:func:`hummingbit.training.model_codes.fit_reconstruction`, and the signs of the vectors. Each seed
learns a head; all seeds learn from the same made queries. Codes are ranked by the query's real
values (``asymmetric``), and by these and words (``hybrid``, with stems). Hybrids have the weight of
codes that is best, by mean nDCG@10, on the other corpora, the one that
:mod:`hummingbit.evaluation.fusion` fits to the documents alone, and the one that is best on the
judged queries themselves. Beside them are BM25 with stems, the model's cosine, and the two on one
scale, summed with the weight of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from experiments.judged_queries.compared_rankings import (
    STEMS,
    CodedCorpus,
    Scores,
    bm25_scores,
    build_index,
)
from experiments.judged_queries.judged_corpora import Corpus, read_corpus
from experiments.parts import add_bits, add_run_options
from experiments.result_tables import Record, print_table, save_records
from hummingbit.corpus.named_sets import JUDGED
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.reconstruction import Reconstruction
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.text_model import TextModel
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.evaluation.fusion import WEIGHTS, KnownItems, fitted_weight, known_items, made_curve
from hummingbit.evaluation.result import Evaluation
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.rankings import BEST_BY_WORDS
from hummingbit.training.linear_codes import MadeQueries, fit_itq
from hummingbit.training.model_codes import (
    fit_head,
    fit_reconstruction,
    make_queries,
    read_documents,
)
from hummingbit.training.model_folders import ModelFolder, read_model

SUMMARY = "judged queries: codes of a language model, its cosines, and words"
METRICS = ("Success@10", "MRR", "nDCG@10")
HEADS = ("codes", "ITQ", "reconstruction")
CHOSEN, OTHERS, BEST = "fitted weight", "weight of the others", "best weight"
_WITH_WEIGHT = " with weight "

Evaluations = dict[str, dict[str, list[Evaluation]]]
"""By corpus and ranking, one for each seed; one alone where no seed changes the ranking."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--model", type=Path, required=True, metavar="FOLDER", help="the folder of the model"
    )
    parser.add_argument(
        "--corpora",
        nargs="+",
        default=list(JUDGED),
        choices=JUDGED,
        metavar="NAME",
        help=f"of {', '.join(JUDGED)} (default: all)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="tokens of a document that are read (default: as many as the model says)",
    )
    parser.add_argument(
        "--heads",
        nargs="+",
        default=list(HEADS),
        choices=HEADS,
        metavar="HEAD",
        help=f"of {', '.join(HEADS)} (default: all)",
    )
    add_bits(parser, [64, 128, 256])
    add_run_options(parser, "results/model-codes", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate every ranking on every corpus and print a table for each metric."""
    folder = read_model(args.model, max_tokens=args.max_tokens)
    args.work_dir.mkdir(parents=True, exist_ok=True)
    evaluations: Evaluations = {}
    for name in args.corpora:
        corpus = read_corpus(name, "queries", args.data_root)
        of_corpus = evaluations.setdefault(name, {})
        for ranking, scores in rank(corpus, folder, args):
            evaluation = evaluate_by_score([scores], corpus.relevance, METRICS)
            of_corpus.setdefault(ranking, []).append(evaluation)
        save_records(args, list(_records(evaluations)))
    _choose_weights(evaluations)
    for metric in METRICS:
        _print_metric(evaluations, metric)
    save_records(args, list(_records(evaluations)))
    return 0


def rank(
    corpus: Corpus, folder: ModelFolder, args: argparse.Namespace
) -> Iterator[tuple[str, Scores]]:
    """Yield the name of each ranking and its scores, for every seed that changes them."""
    model, texts = folder.features, corpus.documents
    saved = args.work_dir / f"{corpus.name}-{model.max_tokens}.vectors"
    vectors, _ = read_documents(folder, texts, corpus.data.sha256, saved)
    queries, _ = model.transform_queries(corpus.queries)
    words = build_index(texts, STEMS)
    by_words = bm25_scores(corpus.queries, words, hybrid=True)
    cosines = np.asarray(queries.astype(np.float64) @ vectors.T)
    yield "bm25, stems", bm25_scores(corpus.queries, words)
    yield "cosine", cosines
    for weight in WEIGHTS:
        summed = _shares_of_best(by_words) + weight * _standardized(cosines)
        yield f"cosine and words{_WITH_WEIGHT}{weight:g}", summed
    signs = CodedCorpus(pack_bits(vectors > 0), queries)
    yield from _rank_codes(f"signs, {model.dimension} bits", signs, corpus, words)
    made = make_queries(model, texts, seed=0) if "codes" in args.heads else None
    asked = _read_known_items(model, texts, vectors)
    for seed in range(args.seeds):
        for name in args.heads:
            # Shorter codes are the first bits of longer ones, but for those of ITQ.
            longest = None if name == "ITQ" else _fit(name, vectors, max(args.bits), seed, made)
            for n_bits in args.bits:
                head = longest or _fit(name, vectors, n_bits, seed, made)
                codes = pack_bits(head.encode(vectors)[:, :n_bits])
                coded = CodedCorpus(codes, head.weights(queries)[:, :n_bits])
                label = f"{name}, {n_bits} bits"
                yield from _rank_codes(label, coded, corpus, words)
                if asked is None:
                    continue
                curve = made_curve(asked.of(head, n_bits))
                chosen = fitted_weight(curve, of_model=True)
                print(f"{corpus.name}, {label}: the fitted weight is {chosen:g}", flush=True)
                by_words, by_codes = _parts_of_hybrid(coded, corpus, words)
                yield f"{label} and words, {CHOSEN}", np.round(by_words + chosen * by_codes, 9)


class _Head(Protocol):
    """What turns vectors of documents into bits, and vectors of queries into weights of bits."""

    def encode(self, vectors: Floats, /) -> npt.NDArray[np.bool_]:
        """Return ``bool[N, B]``."""

    def weights(self, queries: Floats, /) -> Floats:
        """Return ``float32[Q, B]``."""


class _LinearHead(NamedTuple):
    """A map and a threshold for every bit, for documents and queries alike."""

    weight: Floats
    thresholds: Floats

    def encode(self, vectors: Floats) -> npt.NDArray[np.bool_]:
        return np.asarray(vectors @ self.weight > self.thresholds)

    def weights(self, queries: Floats) -> Floats:
        return np.asarray(queries @ self.weight - self.thresholds)


class _ReconstructionHead(NamedTuple):
    """Bits that are chosen beside one another, and the map that reconstructs vectors from them."""

    blocks: Reconstruction

    def encode(self, vectors: Floats) -> npt.NDArray[np.bool_]:
        return np.asarray(self.blocks.logits(vectors)[0] > 0)

    def weights(self, queries: Floats) -> Floats:
        return np.asarray(queries @ self.blocks.decoder)


def _fit(name: str, vectors: Floats, n_bits: int, seed: int, made: MadeQueries | None) -> _Head:
    if name == "reconstruction":
        return _ReconstructionHead(fit_reconstruction(vectors, n_bits, seed))
    if name == "ITQ":
        return _LinearHead(*fit_itq(vectors, n_bits, seed))
    layer, thresholds = fit_head(vectors, n_bits, seed, queries=made)
    return _LinearHead(layer.weight, thresholds)


class _Asked(NamedTuple):
    """Queries made of documents, and the vectors of the documents and the queries."""

    items: KnownItems
    documents: Floats
    queries: Floats

    def of(self, head: _Head, n_bits: int) -> KnownItems:
        """Return the items with the first bits of a head."""
        values = head.weights(self.queries)[:, :n_bits]
        encoded = replace(self.items.queries, codes=pack_bits(values > 0), weights=values)
        codes = pack_bits(head.encode(self.documents)[:, :n_bits])
        return replace(self.items, codes=codes, queries=encoded)


def _read_known_items(model: TextModel, texts: Sequence[str], vectors: Floats) -> _Asked | None:
    """Read made queries and the rests of their documents with the model, once for all heads."""
    identity = Layer(
        np.eye(model.dimension, dtype=np.float32), np.zeros(model.dimension, np.float32), "identity"
    )
    encoder = Encoder(model, [identity], np.zeros(model.dimension, np.float32), {})
    items = known_items(encoder, texts, 0, codes=pack_bits(vectors > 0))
    if items is None:
        return None
    rows = {text: row for row, text in enumerate(texts)}
    of_documents = np.zeros((len(items.documents), model.dimension), dtype=np.float32)
    known = [text in rows for text in items.documents]
    of_documents[known] = vectors[[rows[text] for text in items.documents if text in rows]]
    unknown = [text for text in items.documents if text not in rows]
    of_documents[np.logical_not(known)] = model.transform(unknown)
    assert items.queries.weights is not None  # noqa: S101 - an encoder gives them
    return _Asked(items, of_documents, items.queries.weights)


def _rank_codes(
    name: str, coded: CodedCorpus, corpus: Corpus, words: LexicalIndex
) -> Iterator[tuple[str, Scores]]:
    yield name, coded.asymmetric()
    by_words, by_codes = _parts_of_hybrid(coded, corpus, words)
    for weight in WEIGHTS:
        # Rounded, so that equal scores are equal again.
        summed = np.round(by_words + weight * by_codes, 9)
        yield f"{name} and words{_WITH_WEIGHT}{weight:g}", summed


def _parts_of_hybrid(
    coded: CodedCorpus, corpus: Corpus, words: LexicalIndex
) -> tuple[Scores, Scores]:
    """Return the scores of words and of codes; their weighted sum is the hybrid ranking."""
    once, twice = (coded.hybrid(corpus.queries, words, weight, n_feedback=0) for weight in (1, 2))
    return once - (twice - once), twice - once


def _shares_of_best(scores: Scores) -> Scores:
    return np.asarray(BEST_BY_WORDS * scores / np.maximum(scores.max(axis=1, keepdims=True), 1))


def _standardized(scores: Scores) -> Scores:
    deviations = np.maximum(scores.std(axis=1, keepdims=True), 1e-12)
    return np.asarray((scores - scores.mean(axis=1, keepdims=True)) / deviations)


def _choose_weights(evaluations: Evaluations) -> None:
    """Replace the rankings of every weight by the one that is best on the other corpora."""
    first = next(iter(evaluations.values()))
    names = dict.fromkeys(name.split(_WITH_WEIGHT)[0] for name in first if _WITH_WEIGHT in name)
    for name in names:
        tried = {
            weight: {
                corpus: rankings.pop(f"{name}{_WITH_WEIGHT}{weight:g}")
                for corpus, rankings in evaluations.items()
            }
            for weight in WEIGHTS
        }
        for corpus, rankings in evaluations.items():
            others = [other for other in evaluations if other != corpus] or [corpus]
            means = {
                weight: mean(_mean(by_corpus[other], "nDCG@10") for other in others)
                for weight, by_corpus in tried.items()
            }
            best = max(means, key=means.__getitem__)
            print(f"{name}: the weight for {corpus} is {best:g}")
            rankings[f"{name}, {OTHERS}"] = tried[best][corpus]
            by_weight = (by_corpus[corpus] for by_corpus in tried.values())
            rankings[f"{name}, {BEST}"] = max(by_weight, key=lambda some: _mean(some, "nDCG@10"))


def _mean(seeds: Sequence[Evaluation], metric: str) -> float:
    return mean(evaluation.expected[metric] for evaluation in seeds)


def _print_metric(evaluations: Evaluations, metric: str) -> None:
    """Print a row for each ranking and a column for each corpus: the mean ± the deviation."""
    rows = []
    for ranking in next(iter(evaluations.values())):
        of_corpora = [
            [evaluation.expected[metric] for evaluation in rankings.get(ranking, ())]
            for rankings in evaluations.values()
        ]
        cells = [
            f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")
            if values
            else ""
            for values in of_corpora
        ]
        means = [mean(values) for values in of_corpora if values]
        rows.append([ranking, *cells, f"{mean(means):.3f}"])
    print(f"\n{metric}\n")
    print_table(("ranking", *evaluations, "mean"), rows)


def _records(evaluations: Evaluations) -> Iterator[Record]:
    for corpus, rankings in evaluations.items():
        for ranking, seeds in rankings.items():
            for seed, evaluation in enumerate(seeds):
                yield {"corpus": corpus, "ranking": ranking, "seed": seed, **evaluation.expected}
