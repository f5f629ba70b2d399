"""Codes of vectors, rescored by the vectors that a collection keeps: quality, space and time.

The vectors are latent semantic vectors (LSA) of judged corpora, ``--dimension`` numbers each, of
length 1. Per corpus and code length, an ITQ encoder is fitted to the vectors of the documents, and
collections with each form of kept vectors are searched by those of the queries. nDCG@10 is
tie-averaged for whole rankings and as served for rescored ones; the first row is the exact ranking
by cosine. Bytes a document are what a form adds to the store. Times are medians of single searches,
interleaved, and ratios to a search without rescoring.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.judged_queries.compared_rankings import CodedCorpus
from experiments.judged_queries.judged_corpora import Corpus, read_corpus
from experiments.parts import add_bits, add_choices, add_data_root
from experiments.result_tables import print_table, save_records
from hummingbit.commands.printing import add_json_or_former_file
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.lexical import ANALYZERS
from hummingbit.index.names import (
    FLOAT16,
    FLOAT32,
    FORMS,
    INT8,
    NONE,
)
from hummingbit.index.options import Rescore
from hummingbit.index.records import Query
from hummingbit.training.linear_codes import fit_itq

SUMMARY = "kept vectors: nDCG@10 of rescored hits, bytes on disk, and time"
METRIC, HITS = "nDCG@10", 10
OVERSAMPLES = (4, 10)
CORPORA = ("cranfield", "nfcorpus", "medline")
TIMED_QUERIES = 100

Floats = npt.NDArray[np.float32]
Figures = dict[str, float]
"""A figure for each ranking."""


@dataclass(frozen=True)
class Vectors:
    """The vectors of a corpus, ``float32[N, D]`` and ``float32[Q, D]``."""

    documents: Floats
    queries: Floats


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_choices(parser, "--corpora", CORPORA, "the corpora")
    add_bits(parser, [64, 256])
    parser.add_argument(
        "--dimension", type=int, default=256, metavar="N", help="numbers of a vector (default: 256)"
    )
    add_data_root(parser)
    add_json_or_former_file(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print nDCG@10, bytes and times, by corpus and ranking."""
    quality: dict[str, Figures] = {}
    space: dict[str, Figures] = {}
    times: dict[str, Figures] = {}
    for name in args.corpora:
        corpus = read_corpus(name, "queries", args.data_root)
        vectors = latent_vectors(corpus, args.dimension)
        quality[name] = {"vectors, exact": ndcg(corpus, vectors.queries @ vectors.documents.T)}
        for n_bits in args.bits:
            with TemporaryDirectory() as folder, DataFolder(Path(folder), writable=True) as data:
                encoder = fit_encoder(vectors, n_bits, Path(folder))
                filled = dict(fill(data, vectors))
                quality[name] |= dict(rank_by_codes(corpus, vectors, encoder))
                quality[name] |= dict(rescore(corpus, vectors, filled, n_bits))
                space[f"{name}, {n_bits} bits"] = bytes_added(filled)
                times[f"{name}, {n_bits} bits"] = ratios(vectors, filled)
    print_figures(f"{METRIC} of LSA vectors of {args.dimension} numbers", quality, "mean", 3)
    print_figures("bytes a document that a form adds to the store", space, "mean", 0)
    print_figures("time of a search, ratio to one without rescoring", times, "mean", 1)
    records = [
        {"dataset": name, "ranking": ranking, METRIC: value}
        for name, figures in quality.items()
        for ranking, value in figures.items()
    ]
    save_records(args, records)
    return 0


def latent_vectors(corpus: Corpus, dimension: int) -> Vectors:
    """Return vectors of length 1 by latent semantic analysis, with stems."""
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    vectorizer = TfidfVectorizer(analyzer=ANALYZERS["english"].terms, sublinear_tf=True)
    rows = vectorizer.fit_transform(corpus.documents)
    svd = TruncatedSVD(dimension, random_state=0).fit(rows)
    queries = vectorizer.transform(corpus.queries)
    parts = [normalize(svd.transform(matrix)).astype(np.float32) for matrix in (rows, queries)]
    return Vectors(*parts)


def fit_encoder(vectors: Vectors, n_bits: int, folder: Path) -> Encoder:
    """Fit ITQ to the vectors of the documents, and write the encoder to a data folder."""
    weight, thresholds = fit_itq(vectors.documents, n_bits, 0)
    layer = Layer(weight, np.zeros(n_bits, dtype=np.float32), "identity")
    encoder = Encoder(VectorFeatures(weight.shape[0]), [layer], thresholds, {})
    write_artifact(folder / "encoders" / "itq", encoder, vectors.documents[:200])
    return encoder


def fill(data: DataFolder, vectors: Vectors) -> Iterator[tuple[str, CollectionBackend]]:
    """Yield a collection of the documents for each form of kept vectors."""
    for form in FORMS:
        collection = data.create_collection(form, encoder="itq", keep_vectors=form)
        collection.upsert(
            Document(str(at), vector=vector) for at, vector in enumerate(vectors.documents)
        )
        collection.compact()
        yield form, collection


def rank_by_codes(
    corpus: Corpus, vectors: Vectors, encoder: Encoder
) -> Iterator[tuple[str, float]]:
    """Yield the name of each ranking of all documents by their codes, and its figure."""
    codes, weights = encoder.encode(vectors.documents), encoder.query_weights(vectors.queries)
    coded = CodedCorpus(codes, weights)
    yield f"{encoder.n_bits} bits, hamming", ndcg(corpus, coded.hamming())
    yield f"{encoder.n_bits} bits, asymmetric", ndcg(corpus, coded.asymmetric())


def rescore(
    corpus: Corpus, vectors: Vectors, filled: dict[str, CollectionBackend], n_bits: int
) -> Iterator[tuple[str, float]]:
    """Yield the name of each rescored ranking and its figure."""
    queries = [Query(vector=vector) for vector in vectors.queries]
    n_documents = len(vectors.documents)
    for ranking in ("hamming", "asymmetric"):
        for oversample in OVERSAMPLES:
            for form in (INT8, FLOAT16, FLOAT32):
                how = Rescore("vectors", oversample)
                results = filled[form].search(queries, HITS, ranking=ranking, rescore=how)
                name = f"{n_bits} bits, {ranking}, {form} × {oversample}"
                yield name, ndcg(corpus, table(results, n_documents), served=True)


def table(results: Any, n_documents: int) -> npt.NDArray[np.float64]:
    """Return the scores of all documents, ``float64[Q, N]``; −∞ for those that are not hits."""
    scores = np.full((len(results.hits), n_documents), -np.inf)
    for line, hits in zip(scores, results.hits, strict=True):
        for hit in hits:
            line[int(hit.id)] = hit.score
    return scores


def ndcg(corpus: Corpus, scores: npt.NDArray[Any], *, served: bool = False) -> float:
    """Return the mean of the metric, as served or tie-averaged."""
    result = evaluate_by_score([scores.astype(np.float64)], corpus.relevance, [METRIC])
    return (result.metrics if served else result.expected)[METRIC]


def bytes_added(filled: dict[str, CollectionBackend]) -> Figures:
    """Return the bytes a document that each form adds to the store without vectors."""
    least = filled[NONE].bytes_on_disk()
    return {
        form: (filled[form].bytes_on_disk() - least) / len(filled[form])
        for form in FORMS
        if form != NONE
    }


def ratios(vectors: Vectors, filled: dict[str, CollectionBackend]) -> Figures:
    """Return the median times of rescored searches, as ratios to a search by Hamming distance."""
    ways: dict[str, Callable[[Query], object]] = {
        "hamming": lambda query: filled[NONE].search([query], HITS, with_cursor=False)
    }
    for form in (INT8, FLOAT16, FLOAT32):
        for oversample in OVERSAMPLES:
            how = Rescore("vectors", oversample)

            def search(
                query: Query, collection: CollectionBackend = filled[form], how: Rescore = how
            ) -> object:
                return collection.search([query], HITS, with_cursor=False, rescore=how)

            ways[f"{form} × {oversample}"] = search
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for vector in vectors.queries[:TIMED_QUERIES]:
        for name, way in ways.items():
            began = time.process_time()
            way(Query(vector=vector))
            seconds[name].append(time.process_time() - began)
    medians = {name: median(values) for name, values in seconds.items()}
    print(f"hamming: {1000 * medians['hamming']:.2f} ms of processor time")
    return {name: value / medians["hamming"] for name, value in medians.items()}


def print_figures(title: str, columns: dict[str, Figures], last: str, digits: int) -> None:
    """Print a row for each ranking, a column for each corpus, and their mean."""
    print(f"\n{title}\n")
    rows = []
    for name in next(iter(columns.values())):
        values = [figures[name] for figures in columns.values()]
        rows.append([name, *(f"{value:.{digits}f}" for value in [*values, mean(values)])])
    print_table(("", *columns, last), rows)
