"""Codes of the encoder that ships on real queries with relevance judgements.

The encoder reads words and pieces of words, no transformer runs. Beside its codes, cut to each
number of bits, are those of ``train static``, which starts at it and learns from the documents
alone, and BM25 with stems. Codes are ranked by the query's real values, and by these and words as
the ranking hybrid does, with the encoder's weight of codes. Figures of trained codes are means over
the seeds. The time is that of a query, encoded alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

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
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.recipes import STATIC, ClozeRecipe
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.rankings import DEFAULT_WEIGHT
from hummingbit.training.cloze import train_cloze
from hummingbit.training.static import load_shipped

SUMMARY = "judged queries: codes of the encoder that ships, and those trained from it"
METRICS = ("Success@10", "MRR", "nDCG@10")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--corpora",
        nargs="+",
        default=list(JUDGED),
        choices=JUDGED,
        metavar="NAME",
        help=f"of {', '.join(JUDGED)} (default: all)",
    )
    parser.add_argument(
        "--trained-bits",
        nargs="*",
        type=int,
        default=[64],
        metavar="N",
        help="bits of the codes that are trained (default: 64)",
    )
    add_bits(parser, [64, 128, 256])
    add_run_options(parser, "results/static-codes", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate every ranking on every corpus and print a table for each metric."""
    _, shipped = load_shipped()
    args.work_dir.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    for name in args.corpora:
        corpus = read_corpus(name, "queries", args.data_root)
        for ranking, scores in rank(corpus, shipped, args):
            found = [
                evaluate_by_score([score], corpus.relevance, METRICS).expected for score in scores
            ]
            means = {metric: mean(expected[metric] for expected in found) for metric in METRICS}
            records.append({"corpus": name, "ranking": ranking, **means})
        print(f"{name}: {_microseconds(shipped, corpus.queries):.0f} µs a query", flush=True)
        save_records(args, records)
    for metric in METRICS:
        _print_metric(records, metric)
    return 0


def rank(
    corpus: Corpus, shipped: Encoder, args: argparse.Namespace
) -> Iterator[tuple[str, list[Scores]]]:
    """Yield the name of each ranking and its scores, for each seed where it is trained."""
    words = build_index(corpus.documents, STEMS)
    yield "bm25, stems", [bm25_scores(corpus.queries, words)]
    for n_bits in args.bits:
        coded = _encode(prefix(shipped, n_bits), corpus)
        yield f"shipped, {n_bits} bits", [coded.asymmetric()]
        yield f"shipped, {n_bits} bits, and words", [_hybrid(coded, corpus, words, shipped)]
    for n_bits in args.trained_bits:
        encoders = [_train(corpus, n_bits, seed) for seed in range(args.seeds)]
        all_coded = [_encode(encoder, corpus) for encoder in encoders]
        yield f"trained, {n_bits} bits", [coded.asymmetric() for coded in all_coded]
        hybrids = [
            _hybrid(coded, corpus, words, encoder)
            for coded, encoder in zip(all_coded, encoders, strict=True)
        ]
        yield f"trained, {n_bits} bits, and words", hybrids


def prefix(encoder: Encoder, n_bits: int) -> Encoder:
    """Return the encoder of the first `n_bits`; it must have one layer."""
    (layer,) = encoder.layers
    cut = Layer(layer.weight[:, :n_bits], layer.bias[:n_bits], "identity", layer.precision)
    return replace(encoder, layers=[cut], thresholds=encoder.thresholds[:n_bits])


def _encode(encoder: Encoder, corpus: Corpus) -> CodedCorpus:
    return CodedCorpus(encoder.encode(corpus.documents), encoder.query_weights(corpus.queries))


def _train(corpus: Corpus, n_bits: int, seed: int) -> Encoder:
    recipe = ClozeRecipe(method=STATIC, n_bits=n_bits, seed=seed, validation_share=0.0)
    with TemporaryDirectory() as folder:
        return train_cloze(corpus.data, recipe, Path(folder) / "encoder", progress=False).encoder


def _hybrid(coded: CodedCorpus, corpus: Corpus, words: LexicalIndex, encoder: Encoder) -> Scores:
    return coded.hybrid(corpus.queries, words, encoder.hybrid_weight or DEFAULT_WEIGHT)


def _microseconds(encoder: Encoder, queries: Sequence[str]) -> float:
    encoder.query_weights(queries[:1])
    start = time.perf_counter()
    for query in queries:
        encoder.query_weights([query])
    return (time.perf_counter() - start) / len(queries) * 1e6


def _print_metric(records: Sequence[Record], metric: str) -> None:
    """Print a row for each ranking and a column for each corpus."""
    corpora = list(dict.fromkeys(str(record["corpus"]) for record in records))
    rows = []
    for ranking in dict.fromkeys(str(record["ranking"]) for record in records):
        values = [float(record[metric]) for record in records if record["ranking"] == ranking]
        rows.append([ranking, *(f"{value:.3f}" for value in values), f"{mean(values):.3f}"])
    print(f"\n{metric}\n")
    print_table(("ranking", *corpora, "mean"), rows)
