"""What codes of a language model gain from judged queries.

The codes are those of ``train model``, and what learns is what ``train judged`` teaches. On
nfcorpus the queries of the training split teach, and those of the test split are measured. On the
docstrings of ``hummingbit demo``, whose 120 questions have no training split, four fifths of the
questions teach and the others are measured, in turn. A seed draws the held-out queries, the batches
and the folds; the head that they start from is one for all seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.judged_queries.judged_corpora import Corpus, read_corpus
from experiments.parts import add_bits, add_choices, add_run_options, need
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from hummingbit.corpus.named_sets import load_qrels
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.recipes import JudgementRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.training.data import Rows
from hummingbit.training.judgements import METRIC, Read, grades_of, learn
from hummingbit.training.model_codes import fit_head, make_queries, read_documents
from hummingbit.training.model_folders import ModelFolder, read_model

SUMMARY = "judged queries teach codes of a language model: nDCG@10 before and after"
NEEDS = ", and model"
CORPORA = ("nfcorpus", "docstrings")
TRAINING, FOLDS = {"nfcorpus": "queries-train"}, 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--model", type=Path, required=True, metavar="FOLDER", help="the folder of the model"
    )
    add_choices(parser, "--corpora", CORPORA, "the corpora")
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="tokens of a document that are read (default: as many as the model says)",
    )
    parser.add_argument(
        "--made-queries",
        action="store_true",
        help="the head learns from queries made of documents, as in train model, not from vectors"
        " with noise alone",
    )
    add_bits(parser, [128])
    add_run_options(parser, "results/judgements", seeds=5)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Learn with every seed and print the mean nDCG@10 before and after."""
    need("onnxruntime", ["--model"])
    folder = read_model(args.model, max_tokens=args.max_tokens)
    args.work_dir.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    for name in args.corpora:
        for record in _records(name, folder, args):
            records.append(record)
            save_records(args, records)
    rows = []
    for (corpus, n_bits, ranking), runs in group(records, "corpus", "bits", "ranking").items():
        figures = [mean_and_deviation(runs, name) for name in ("before", "after", "gain")]
        rows.append([corpus, str(n_bits), ranking, *figures])
    print_table(("corpus", "bits", "ranking", "before", "after", "gain"), rows)
    return 0


def _records(name: str, folder: ModelFolder, args: argparse.Namespace) -> Iterator[Record]:
    model, corpus = folder.features, read_corpus(name, "queries", args.data_root)
    saved = args.work_dir / f"{name}-{model.max_tokens}.vectors"
    documents, _ = read_documents(folder, corpus.documents, corpus.data.sha256, saved)
    asked = model.transform_queries(corpus.queries)[0]
    made = make_queries(model, corpus.documents, seed=0) if args.made_queries else None
    taught, taught_vectors = corpus, asked
    if name in TRAINING:
        taught = read_corpus(name, TRAINING[name], args.data_root)
        taught_vectors = model.transform_queries(taught.queries)[0]
    grades = _grades(taught, TRAINING.get(name, "queries"), args.data_root)
    has_answer = np.diff(grades.indptr) > 0
    for n_bits in args.bits:
        layer, thresholds = fit_head(documents, n_bits, 0, queries=made)
        start = Encoder(VectorFeatures(documents.shape[1]), [layer], thresholds, {})
        before = _measure(layer, thresholds, documents, asked, corpus)
        for seed in range(args.seeds):
            after = {ranking: np.zeros(len(asked)) for ranking in before}
            for learned, measured in _folds(name, len(taught_vectors), len(asked), seed):
                rows = learned[has_answer[learned]]
                found = learn(
                    start,
                    _read(taught_vectors[rows]),
                    _read(documents),
                    grades[rows],
                    recipe=JudgementRecipe(seed=seed),
                    rng=np.random.default_rng(seed),
                )
                of_fold = _measure(found.layers(start)[-1], found.cut, documents, asked, corpus)
                for ranking, values in of_fold.items():
                    after[ranking][measured] = values[measured]
            for ranking, values in before.items():
                means = {"before": float(values.mean()), "after": float(after[ranking].mean())}
                about = {"corpus": name, "bits": n_bits, "ranking": ranking, "seed": seed}
                yield {**about, **means, "gain": means["after"] - means["before"]}


def _folds(name: str, n_taught: int, n_asked: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows of the queries that teach, and those that are measured."""
    if name in TRAINING:
        yield np.arange(n_taught), np.arange(n_asked)
        return
    fold = np.random.default_rng(100 + seed).permutation(n_asked) % FOLDS
    for number in range(FOLDS):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _read(vectors: Floats) -> Read:
    return Read(vectors, np.empty((len(vectors), 0), dtype=np.float32))


def _grades(corpus: Corpus, split: str, data_root: Path | None) -> Any:
    qrels = load_qrels(corpus.name, split, data_root) or {}
    return grades_of(qrels, [query.id for query in corpus.query_list], corpus.data.ids)


def _measure(
    layer: Layer, thresholds: Floats, documents: Floats, asked: Floats, corpus: Corpus
) -> dict[str, npt.NDArray[np.float64]]:
    """Return nDCG@10 of each query by ranking, tie-averaged."""
    values = asked @ layer.weight - thresholds
    bits = np.where(documents @ layer.weight > thresholds, 1.0, -1.0)
    rankings = {"hamming": np.where(values > 0, 1.0, -1.0), "asymmetric": values}
    return {
        ranking: evaluate_by_score(
            [queries @ bits.T], corpus.relevance, [METRIC]
        ).expected_per_query[METRIC]
        for ranking, queries in rankings.items()
    }
