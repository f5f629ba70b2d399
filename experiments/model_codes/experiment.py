"""Codes of a language model on real queries with relevance judgements.

The model reads the documents and the queries once; the vectors are kept in the folder of results.
The codes are those of :func:`hummingbit.training.model_codes.fit_head`, of each number of bits,
those of iterative quantization (ITQ), learned for each number of bits, those of
:func:`hummingbit.training.model_codes.fit_reconstruction`, and the signs of the vectors. Each seed
learns a head; all seeds learn from the same made queries. Codes are ranked by the query's real
values (``asymmetric``), and by these and words (``hybrid``, with stems). Hybrids have the weight of
codes that is best, by mean nDCG@10, on the other corpora, and the one that is best on the judged
queries themselves, which is a bound. Those of reconstructions also have their default weight; with
it, words that fade as in a served search
(:class:`hummingbit.index.rankings.HybridRanking`); and with these, queries that learn from their
best documents. Beside them are BM25 with stems, the model's cosine, and the two on one scale.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import mean
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from experiments.code_version import version_of
from experiments.judged_queries.compared_rankings import (
    STEMS,
    CodedCorpus,
    Scores,
    bm25_scores,
    build_index,
    words_of_hybrids,
)
from experiments.judged_queries.judged_corpora import Corpus, read_corpus
from experiments.parts import add_bits, add_run_options, need
from experiments.result_tables import Record, format_mean, print_table, save_records
from hummingbit.corpus.named_sets import JUDGED
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.reconstruction import Reconstruction
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.foundation.files import replace_file
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.rankings import OF_MODELS
from hummingbit.training.linear_codes import MadeQueries, fit_itq
from hummingbit.training.model_codes import (
    fit_head,
    fit_reconstruction,
    make_queries,
    read_documents,
)
from hummingbit.training.model_folders import ModelFolder, read_model

SUMMARY = "judged queries: codes of a language model, its cosines, and words"
NEEDS = ", and model"
METRICS = ("Success@10", "MRR@100", "nDCG@10")
HEADS = ("codes", "ITQ", "reconstruction")
DEFAULT = f"weight {OF_MODELS:g}"
OTHERS, BEST = "weight of the others", "best weight"
OTHER_QUERIES = ("docstrings:queries-simple", "docstrings:queries-reworded")
"""Further queries of a corpus; those that are reworded share no word with their answers."""
WEIGHTS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""The weights of codes that are tried."""
_WITH_WEIGHT = " with weight "

Figures = dict[str, float]
Evaluations = dict[str, dict[str, list[Figures]]]
"""By corpus and ranking, one for each seed; one alone where no seed changes the ranking."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--model", type=Path, required=True, metavar="FOLDER", help="the folder of the model"
    )
    parser.add_argument(
        "--corpora",
        nargs="+",
        default=[name for name in JUDGED if name != "docstrings"],
        choices=(*JUDGED, *OTHER_QUERIES),
        metavar="NAME",
        help=f"of {', '.join((*JUDGED, *OTHER_QUERIES))} (default: all but those of docstrings)",
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
        default=["ITQ", "reconstruction"],
        choices=HEADS,
        metavar="HEAD",
        help=f"of {', '.join(HEADS)} (default: all but codes, for which the model reads 16,000"
        " queries a corpus)",
    )
    add_bits(parser, [64, 128, 256, 384])
    add_run_options(parser, "results/model-codes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate every ranking on every corpus and print a table for each metric."""
    need("onnxruntime", ["--model"])
    folder = read_model(args.model, max_tokens=args.max_tokens)
    args.work_dir.mkdir(parents=True, exist_ok=True)
    evaluations: Evaluations = {}
    for name in args.corpora:
        corpus, _, queries = name.partition(":")
        read = _Read(read_corpus(corpus, queries or "queries", args.data_root), folder, args)
        of_corpus = evaluations.setdefault(name, {})
        for part in read.parts():
            for ranking, figures in read.measured(*part).items():
                of_corpus.setdefault(ranking, []).append(figures)
        save_records(args, list(_records(evaluations)))
    _choose_weights(evaluations)
    for metric in METRICS:
        _print_metric(evaluations, metric)
    save_records(args, list(_records(evaluations)))
    return 0


_Part = tuple[str, tuple[int, ...], int]
"""A head, the numbers of bits and the seed; without a head, the rankings that no seed changes."""


@dataclass(frozen=True, eq=False)
class _Read:
    """A corpus as the model reads it, and the rankings of its queries."""

    corpus: Corpus
    folder: ModelFolder
    args: argparse.Namespace

    @cached_property
    def vectors(self) -> Floats:
        name = f"{self.corpus.name}-{self.folder.features.max_tokens}.vectors"
        digest = self.corpus.data.sha256
        texts = self.corpus.documents
        return read_documents(self.folder, texts, digest, self.args.work_dir / name)[0]

    @cached_property
    def queries(self) -> Floats:
        return self.folder.features.transform_queries(self.corpus.queries)[0]

    @cached_property
    def words(self) -> LexicalIndex:
        return build_index(self.corpus.documents, STEMS, forms=True)

    @cached_property
    def by_words(self) -> Scores:
        """Half the score by words of each document, less where no document has much of a query."""
        return words_of_hybrids(self.corpus.queries, self.words)

    @cached_property
    def made(self) -> MadeQueries:
        return make_queries(self.folder.features, self.corpus.documents, seed=0)

    def parts(self) -> Iterator[_Part]:
        """Yield the parts whose results are kept, so that an interrupted run goes on."""
        yield "", (), 0
        for seed in range(self.args.seeds):
            for head in self.args.heads:
                # Shorter codes are the first bits of longer ones, but for those of ITQ.
                if head == "ITQ":
                    yield from ((head, (n_bits,), seed) for n_bits in self.args.bits)
                else:
                    yield head, tuple(self.args.bits), seed

    def measured(self, head: str, widths: tuple[int, ...], seed: int) -> dict[str, Figures]:
        """Return the figures of the rankings of a part; the folder of results keeps them."""
        about = [
            *(self.folder.sha256, self.folder.features.max_tokens, self.corpus.data.sha256),
            *self.corpus.queries,
            *(head, widths, seed, version_of(__name__)),
        ]
        digest = sha256(json.dumps(about).encode()).hexdigest()
        path = self.args.work_dir / f"{self.corpus.name}-{digest[:16]}.json"
        if path.exists():
            return dict(json.loads(path.read_text()))
        rankings = self._rank(head, widths, seed) if head else self._rank_without_head()
        measured = {
            name: evaluate_by_score([scores], self.corpus.relevance, METRICS).expected
            for name, scores in rankings
        }
        replace_file(path, json.dumps(measured))
        return measured

    def _rank_without_head(self) -> Iterator[tuple[str, Scores]]:
        stems = build_index(self.corpus.documents, STEMS)
        yield "bm25, stems", bm25_scores(self.corpus.queries, stems)
        cosines = np.asarray(self.queries.astype(np.float64) @ self.vectors.T)
        yield from self._alone_and_with_words("cosine", cosines)
        signs = CodedCorpus(pack_bits(self.vectors > 0), self.queries)
        label = f"signs, {self.folder.features.dimension} bits"
        yield from self._alone_and_with_words(label, signs.asymmetric())

    def _rank(self, name: str, widths: tuple[int, ...], seed: int) -> Iterator[tuple[str, Scores]]:
        made = self.made if name == "codes" else None
        head = _fit(name, self.vectors, max(widths), seed, made)
        bits, weights = head.encode(self.vectors), head.weights(self.queries)
        for n_bits in widths:
            label = f"{name}, {n_bits} bits"
            coded = CodedCorpus(pack_bits(bits[:, :n_bits]), weights[:, :n_bits])
            scores = coded.asymmetric()
            yield from self._alone_and_with_words(label, scores)
            if name == "reconstruction":
                yield f"{label} and words, {DEFAULT}", self._hybrid(scores, OF_MODELS)

    def _alone_and_with_words(self, name: str, scores: Scores) -> Iterator[tuple[str, Scores]]:
        yield name, scores
        for weight in WEIGHTS:
            yield f"{name} and words{_WITH_WEIGHT}{weight:g}", self._hybrid(scores, weight)

    def _hybrid(self, by_codes: Scores, weight: float) -> Scores:
        """Return the scores of the ranking ``hybrid``."""
        # Rounded, so that equal scores are equal again.
        return np.round(self.by_words + weight * _standardized(by_codes), 9)


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


def _mean(seeds: Sequence[Figures], metric: str) -> float:
    return mean(figures[metric] for figures in seeds)


def _print_metric(evaluations: Evaluations, metric: str) -> None:
    """Print a row for each ranking and a column for each corpus: the mean ± the deviation."""
    rows = []
    for ranking in next(iter(evaluations.values())):
        of_corpora = [
            [figures[metric] for figures in rankings.get(ranking, ())]
            for rankings in evaluations.values()
        ]
        cells = [format_mean(values) if values else "" for values in of_corpora]
        means = [mean(values) for values in zip(*filter(None, of_corpora), strict=True)]
        rows.append([ranking, *cells, format_mean(means)])
    print(f"\n{metric}\n")
    print_table(("ranking", *evaluations, "mean"), rows)


def _records(evaluations: Evaluations) -> Iterator[Record]:
    for corpus, rankings in evaluations.items():
        for ranking, seeds in rankings.items():
            for seed, figures in enumerate(seeds):
                yield {"corpus": corpus, "ranking": ranking, "seed": seed, **figures}
