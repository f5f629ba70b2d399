"""Codes of a language model on real queries with relevance judgements.

The model reads the documents and the queries once; the vectors are kept in the folder of results.
The codes are those of :func:`hummingbit.training.model_codes.fit_head`, of each number of bits, and
the signs of the vectors. Codes are ranked by the query's real values (``asymmetric``), and by these
and words (``hybrid``, with stems). Hybrids have the weight of codes that is best, by mean nDCG@10,
on the other corpora, the one that :mod:`hummingbit.evaluation.fusion` fits to the documents alone,
and the one that is best on the judged queries themselves. Beside them are BM25 with stems, the
model's cosine, and the two on one scale, summed with the weight of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

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
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.evaluation.fusion import WEIGHTS, fitted_weight, known_items, made_curve
from hummingbit.evaluation.result import Evaluation
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.rankings import BEST_BY_WORDS
from hummingbit.training.model_codes import fit_head, make_queries, read_documents
from hummingbit.training.model_folders import ModelFolder, read_model

SUMMARY = "judged queries: codes of a language model, its cosines, and words"
METRICS = ("Success@10", "MRR", "nDCG@10")
CHOSEN, OTHERS, BEST = "fitted weight", "weight of the others", "best weight"
_WITH_WEIGHT = " with weight "


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
    add_bits(parser, [64, 128, 256])
    add_run_options(parser, "results/model-codes", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate every ranking on every corpus and print a table for each metric."""
    folder = read_model(args.model, max_tokens=args.max_tokens)
    args.work_dir.mkdir(parents=True, exist_ok=True)
    evaluations: dict[str, dict[str, Evaluation]] = {}
    for name in args.corpora:
        corpus = read_corpus(name, "queries", args.data_root)
        evaluations[name] = {
            ranking: evaluate_by_score([scores], corpus.relevance, METRICS)
            for ranking, scores in rank(corpus, folder, args)
        }
        save_records(args, list(_records(evaluations)))
    _choose_weights(evaluations)
    for metric in METRICS:
        _print_metric(evaluations, metric)
    save_records(args, list(_records(evaluations)))
    return 0


def rank(
    corpus: Corpus, folder: ModelFolder, args: argparse.Namespace
) -> Iterator[tuple[str, Scores]]:
    """Yield the name of each ranking and its scores."""
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
    made = make_queries(model, texts, seed=0)
    longest, all_thresholds = fit_head(vectors, max(args.bits), 0, queries=made)
    for n_bits in args.bits:
        # Shorter codes are the first bits of longer ones.
        layer = Layer(longest.weight[:, :n_bits], longest.bias[:n_bits], "identity")
        thresholds = all_thresholds[:n_bits]
        of_documents, of_queries = (layer(one) - thresholds for one in (vectors, queries))
        coded = CodedCorpus(pack_bits(of_documents > 0), of_queries)
        name = f"codes, {n_bits} bits"
        yield from _rank_codes(name, coded, corpus, words)
        encoder = Encoder(model, [layer], thresholds, {})
        items = known_items(encoder, texts, 0, codes=coded.codes)
        if items is not None:
            chosen = fitted_weight(made_curve(items))
            print(f"{corpus.name}, {n_bits} bits: the fitted weight is {chosen:g}")
            yield f"{name} and words, {CHOSEN}", _hybrid(coded, corpus, words, chosen)


def _rank_codes(
    name: str, coded: CodedCorpus, corpus: Corpus, words: LexicalIndex
) -> Iterator[tuple[str, Scores]]:
    yield name, coded.asymmetric()
    for weight in WEIGHTS:
        yield f"{name} and words{_WITH_WEIGHT}{weight:g}", _hybrid(coded, corpus, words, weight)


def _hybrid(coded: CodedCorpus, corpus: Corpus, words: LexicalIndex, weight: float) -> Scores:
    return coded.hybrid(corpus.queries, words, weight, n_feedback=0)


def _shares_of_best(scores: Scores) -> Scores:
    return np.asarray(BEST_BY_WORDS * scores / np.maximum(scores.max(axis=1, keepdims=True), 1))


def _standardized(scores: Scores) -> Scores:
    deviations = np.maximum(scores.std(axis=1, keepdims=True), 1e-12)
    return np.asarray((scores - scores.mean(axis=1, keepdims=True)) / deviations)


def _choose_weights(evaluations: dict[str, dict[str, Evaluation]]) -> None:
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
                weight: mean(by_corpus[other].expected["nDCG@10"] for other in others)
                for weight, by_corpus in tried.items()
            }
            best = max(means, key=means.__getitem__)
            print(f"{name}: the weight for {corpus} is {best:g}")
            rankings[f"{name}, {OTHERS}"] = tried[best][corpus]
            by_weight = (by_corpus[corpus] for by_corpus in tried.values())
            rankings[f"{name}, {BEST}"] = max(by_weight, key=lambda one: one.expected["nDCG@10"])


def _print_metric(evaluations: dict[str, dict[str, Evaluation]], metric: str) -> None:
    """Print a row for each ranking and a column for each corpus."""
    rows = []
    for ranking in next(iter(evaluations.values())):
        values = [rankings[ranking].expected[metric] for rankings in evaluations.values()]
        rows.append([ranking, *(f"{value:.3f}" for value in values), f"{mean(values):.3f}"])
    print(f"\n{metric}\n")
    print_table(("ranking", *evaluations, "mean"), rows)


def _records(evaluations: dict[str, dict[str, Evaluation]]) -> Iterator[Record]:
    for corpus, rankings in evaluations.items():
        for ranking, evaluation in rankings.items():
            yield {"corpus": corpus, "ranking": ranking, **evaluation.expected}
