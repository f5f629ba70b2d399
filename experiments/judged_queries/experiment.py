"""Codes, BM25, TF-IDF and hybrids on real queries with relevance judgements.

The codes are learned from the documents alone, without queries or judgements. The baselines are
BM25 with and without stems, TF-IDF cosine, and ITQ codes of latent semantic vectors; the last two
have stems and the whole vocabulary. Hybrids are those of :mod:`hummingbit.index.rankings`, with
stems. Their lexical part is also ranked alone, as "words of hybrids". With several corpora, a
second hybrid has the weight from :data:`WEIGHTS` with the highest mean nDCG@10 on the other
corpora. "candidates by bm25" are the best documents by Hamming distance, in the order of BM25 with
stems. With ``--passages``, every passage of a document has a code, and the best one ranks the
document. With ``--teacher-vectors``, the vectors of a language model are ranked by cosine, by codes
of them, and by the codes of students, which need no vector of a query.
P-values are those of the paired permutation test against BM25 with stems, with Holm's correction
over the methods of a corpus.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean

import numpy as np

from experiments.judged_queries.coded_corpora import coded_corpora, read_vectors
from experiments.judged_queries.compared_rankings import (
    STEMS,
    WORDS,
    Scores,
    bm25_scores,
    build_index,
    rescore,
    tfidf_scores,
)
from experiments.judged_queries.judged_corpora import PAIRS, Corpus, read_corpus
from experiments.parts import add_bits, add_run_options
from experiments.perception_coherence.rivals import ALL_OBJECTIVES
from experiments.result_tables import Record, print_table, save_records
from experiments.ssb_vae.variants import METHODS as VARIANTS
from hummingbit.corpus.named_sets import JUDGED
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.recipes import ICT, STATIC
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.evaluation.result import Evaluation
from hummingbit.evaluation.significance import holm, permutation_test
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.rankings import DEFAULT_WEIGHT
from hummingbit.training.linear_codes import LINEAR_METHODS

SUMMARY = "judged queries: codes, BM25, TF-IDF and hybrids on real searches"
CORPORA = tuple(name for name in JUDGED if name != "docstrings")
METRICS = ("nDCG@10", "Recall@100", "Success@10", "MRR")
BASELINE = "bm25, stems"
WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6)
TRIED_WEIGHT = ", hybrid with weight "


class JudgedQueriesError(HummingbitError, ValueError):
    """An option of the experiment needs another one."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    learned = [ICT, STATIC, *VARIANTS, *LINEAR_METHODS]
    parser.add_argument(
        "--corpora",
        nargs="+",
        default=list(CORPORA),
        choices=(*JUDGED, *PAIRS),
        metavar="NAME",
        help=f"of {', '.join(JUDGED)}, and {' and '.join(PAIRS)}, which search for paraphrases"
        f" (default: {' '.join(CORPORA)})",
    )
    parser.add_argument(
        "--split",
        default="queries",
        help="the split of the queries, such as queries-development, or titles, which searches for"
        " documents by their titles; a corpus without it uses all its queries (default:"
        " %(default)s)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[],
        choices=learned,
        metavar="NAME",
        help=f"methods to train and add to the table, of {', '.join(learned)} (default: none)",
    )
    add_bits(parser, [64])
    parser.add_argument(
        "--supervision",
        type=float,
        default=0.1,
        metavar="X",
        help="share of the labels that methods learn from, in corpora with labels"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--analyzer",
        default=VISIBLE.name,
        metavar="NAME",
        help="the analyzer of the methods, such as visible+english; ITQ of LSA always has English"
        " stems (default: %(default)s)",
    )
    parser.add_argument(
        "--weight",
        type=float,
        default=DEFAULT_WEIGHT,
        metavar="W",
        help="weight of the codes in a hybrid (default: %(default)s)",
    )
    parser.add_argument(
        "--candidates",
        type=int,
        default=0,
        metavar="N",
        help="order the N best documents by Hamming distance by BM25, too",
    )
    parser.add_argument(
        "--passages",
        type=int,
        default=0,
        metavar="WORDS",
        help="encode passages of so many words, too; the best one ranks its document",
    )
    parser.add_argument(
        "--teacher-vectors",
        type=Path,
        metavar="DIR",
        help="a folder with vectors by id (ids, vectors) of every document and every query,"
        " CORPUS-documents.npz and CORPUS-queries.npz; adds their cosine and codes of them",
    )
    parser.add_argument(
        "--students",
        nargs="+",
        default=[],
        choices=ALL_OBJECTIVES,
        metavar="OBJECTIVE",
        help="with --teacher-vectors, students to distill, of"
        f" {', '.join(ALL_OBJECTIVES)} (default: none)",
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=list(METRICS[:2]),
        choices=METRICS,
        metavar="NAME",
        help=f"of {', '.join(METRICS)}, a table each (default: {' '.join(METRICS[:2])})",
    )
    add_run_options(parser, "results/judged-queries", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate every ranking on every corpus and print a table for each metric.

    Raises:
        JudgedQueriesError: if students are asked for without a teacher.
    """
    if args.students and not args.teacher_vectors:
        raise JudgedQueriesError("students need a teacher; add --teacher-vectors DIR")
    evaluations: dict[str, dict[str, Evaluation]] = {}
    for name in args.corpora:
        corpus = read_corpus(name, args.split, args.data_root)
        evaluations[name] = {
            method: evaluate_by_score([scores], corpus.relevance, METRICS)
            for method, scores in rank(corpus, args)
        }
    for codes in _names_with_tried_weights(evaluations):
        _choose_weight(evaluations, codes)
    for metric in args.metrics:
        _print_metric(evaluations, metric)
    save_records(args, list(_records(evaluations)))
    return 0


def rank(corpus: Corpus, args: argparse.Namespace) -> Iterator[tuple[str, Scores]]:
    """Yield the name of each ranking and its scores."""
    queries, documents = corpus.queries, corpus.documents
    by_words = bm25_scores(queries, build_index(documents, STEMS))
    stems = build_index(documents, STEMS, forms=True)
    yield "bm25", bm25_scores(queries, build_index(documents, WORDS))
    yield BASELINE, by_words
    yield "bm25 of collections", bm25_scores(queries, stems)
    yield "words of hybrids", bm25_scores(queries, stems, hybrid=True)
    yield "tf-idf, stems", tfidf_scores(queries, documents, STEMS)
    taught = read_vectors(corpus, args.teacher_vectors) if args.teacher_vectors else None
    if taught is not None:
        yield "vectors, cosine", taught.cosines()
    for name, coded, passages in coded_corpora(corpus, taught, args):
        yield f"{name}, hamming", coded.hamming()
        if args.candidates:
            scores = rescore(coded.hamming(), by_words, args.candidates)
            yield f"{name}, {args.candidates:,} candidates by bm25", scores
        yield f"{name}, asymmetric", coded.asymmetric()
        if passages is not None:
            yield f"{name}, hamming, passages", passages.hamming()
            yield f"{name}, asymmetric, passages", passages.asymmetric()
        yield f"{name}, hybrid", coded.hybrid(queries, stems, args.weight)
        if len(args.corpora) > 1:
            for weight in WEIGHTS:
                yield f"{name}{TRIED_WEIGHT}{weight:g}", coded.hybrid(queries, stems, weight)


def _names_with_tried_weights(evaluations: Mapping[str, Mapping[str, Evaluation]]) -> list[str]:
    """Return the names of the codes whose hybrids were tried with every weight."""
    rankings = next(iter(evaluations.values()))
    return list(
        dict.fromkeys(name.split(TRIED_WEIGHT)[0] for name in rankings if TRIED_WEIGHT in name)
    )


def _choose_weight(evaluations: dict[str, dict[str, Evaluation]], codes: str) -> None:
    """Replace the hybrids with tried weights by the one chosen on the other corpora."""
    tried = {
        weight: {
            name: systems.pop(f"{codes}{TRIED_WEIGHT}{weight:g}")
            for name, systems in evaluations.items()
        }
        for weight in WEIGHTS
    }
    for name, systems in evaluations.items():
        means = {
            weight: mean(
                evaluation.expected["nDCG@10"]
                for other, evaluation in by_name.items()
                if other != name
            )
            for weight, by_name in tried.items()
        }
        best = max(means, key=means.__getitem__)
        systems[f"{codes}, hybrid, weight of the others"] = tried[best][name]
        print(f"{codes}: the weight for {name} is {best:g}")


def _print_metric(evaluations: Mapping[str, Mapping[str, Evaluation]], metric: str) -> None:
    """Print a row for each method and a column for each corpus; mark what differs from BASELINE."""
    methods = list(next(iter(evaluations.values())))
    p_values = {name: _p_values(systems, metric) for name, systems in evaluations.items()}
    rows = []
    for method in methods:
        values = [systems[method].expected[metric] for systems in evaluations.values()]
        marks = [_mark(p_values[name].get(method)) for name in evaluations]
        cells = [f"{value:.3f}{mark}" for value, mark in zip(values, marks, strict=True)]
        rows.append([method, *cells, f"{mean(values):.3f}"])
    print(f"\n{metric}; * differs from {BASELINE} with p < 0.05, ** with p < 0.001 (Holm)\n")
    print_table(("ranking", *evaluations, "mean"), rows)


def _p_values(systems: Mapping[str, Evaluation], metric: str) -> dict[str, float]:
    values = {name: np.asarray(each.expected_per_query[metric]) for name, each in systems.items()}
    others = [name for name in values if name != BASELINE]
    raw = [permutation_test(values[name], values[BASELINE]) for name in others]
    return dict(zip(others, holm(raw), strict=True))


def _mark(p_value: float | None) -> str:
    if p_value is None or p_value >= 0.05:
        return ""
    return "**" if p_value < 0.001 else "*"


def _records(evaluations: Mapping[str, Mapping[str, Evaluation]]) -> Iterator[Record]:
    for corpus, systems in evaluations.items():
        for method, evaluation in systems.items():
            yield {"corpus": corpus, "ranking": method, **evaluation.expected}
