"""Does the coherence level of codes follow p@100, so that it can be an alarm without labels?

The level compares how codes and a teacher's vectors rank documents for each other (``evaluate
--coherence``), and needs no labels. Beside it is the share of documents whose nearest
by the vectors is among the first ten by the codes ("nearest"). p@100 is that of the test queries,
tie-averaged. Ten students of each kind are ordered by both:

- ``taught``: ridge regression from terms to ITQ codes of the vectors, of 16 or 64 bits, from 100 to
  all documents, as an encoder whose training went better or worse;
- ``mixed``: codes of terms and of the vectors by several methods, and class codes, as encoders that
  one chooses from.

A half has every second query, and a thousand documents. The figure of the two whose rank
correlation with p@100 is higher is chosen on the first half and shown on the second.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from experiments.paper_trials.taught import read_taught
from experiments.parts import add_choices
from experiments.perception_coherence.text_corpora import TaughtCorpus
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.coherence import levels_of_codes
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.training.class_codes import fit_class_codes
from hummingbit.training.distillation import codes_of_terms
from hummingbit.training.linear_codes import LINEAR_METHODS
from hummingbit.training.pipeline import split
from hummingbit.training.text_features import fit_text_features

CORPORA = ("hwu64", "snippets")
BITS, SHARES = (16, 64), (0.01, 0.03, 0.1, 0.3, 1.0)
FIGURES = ("level", "nearest")
MOST_DOCUMENTS, SAMPLES = 1000, 2000
P100 = "p@100"


class Read(NamedTuple):
    """A corpus and the terms of its documents and queries."""

    corpus: TaughtCorpus
    terms: Any
    asked: Any


class Student(NamedTuple):
    """The codes of the documents and of the queries."""

    kind: str
    name: str
    codes: Codes
    asked: Codes


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    add_choices(group, "--alarm-corpora", CORPORA, "the corpora")


def run(args: argparse.Namespace) -> int:
    """Measure all students on both halves, and print the rank correlations with p@100."""
    records: list[Record] = []
    for name in args.alarm_corpora:
        corpus = read_taught(name, args)
        texts, asked = (list(map(str, some.inputs)) for some in (corpus.database, corpus.queries))
        features = fit_text_features(texts, max_terms=10_000)
        read = Read(corpus, features.transform(texts), features.transform(asked))
        for seed in range(args.seeds):
            for student in students(read, args.bits or BITS, seed):
                about = {"corpus": name, "kind": student.kind, "seed": seed, "of": student.name}
                records += [{**about, **figures} for figures in measure(read, student, seed)]
        save_records(args, records)
    _print(records)
    return 0


def students(read: Read, widths: Sequence[int], seed: int) -> Iterator[Student]:
    """Yield ten students of each kind."""
    data, queries, vectors = read.corpus.database, read.corpus.queries, read.corpus.teacher.vectors
    order = np.random.default_rng(seed).permutation(len(data))
    taught: Any = None
    for bits in widths:
        for share in SHARES:
            rows = order[: max(bits + 1, int(share * len(order)))]
            taught = codes_of_terms(read.terms[rows], vectors[rows], bits, seed)
            name = f"{len(rows)} documents, {bits}"
            yield Student("taught", name, *_codes(read.terms, read.asked, taught))
        for method in ("lsh", "pca-sign", "itq"):
            found = LINEAR_METHODS[method](read.terms, bits, seed)
            yield Student("mixed", f"{method}, {bits}", *_codes(read.terms, read.asked, found))
        found = LINEAR_METHODS["itq"](vectors, bits, seed)
        asked = read.corpus.query_vectors
        yield Student("mixed", f"vectors, {bits}", *_codes(vectors, asked, found))
    yield Student("mixed", "taught", *_codes(read.terms, read.asked, taught))
    recipe = ClassCodeRecipe(content_share=0.25, query_classifier="both", seed=seed)
    encoder = fit_class_codes(data, split(data, recipe), recipe).encoder
    asked_codes = encoder.encode_uncorrected_queries(queries.inputs)
    yield Student("mixed", "class codes", encoder.encode(data.inputs), asked_codes)


def _codes(rows: Any, asked: Any, found: tuple[Floats, Floats]) -> tuple[Codes, Codes]:
    weight, thresholds = found
    codes, of_queries = (pack_bits(np.asarray(x @ weight) > thresholds) for x in (rows, asked))
    return codes, of_queries


def measure(read: Read, student: Student, seed: int) -> Iterator[Record]:
    """Yield the figures of a student on each half."""
    documents = np.random.default_rng(100 + seed).permutation(len(read.corpus.database))
    asked, known = (some.labelled().labels for some in (read.corpus.queries, read.corpus.database))
    p100 = evaluate_codes(student.asked, asked, student.codes, known, ["P@100"]).expected_per_query[
        "P@100"
    ]
    for half in range(2):
        rows = np.sort(documents[half::2][:MOST_DOCUMENTS])
        found = levels_of_codes(student.codes[rows], read.corpus.teacher.vectors[rows])
        figures = {"level": found.mean().mean, "nearest": float((found.nearest_rank <= 10).mean())}
        yield {"half": half, **figures, P100: float(p100[half::2].mean())}


def _print(records: list[Record]) -> None:
    rows = [
        [*key, *(mean_and_deviation(runs, figure) for figure in (*FIGURES, P100))]
        for key, runs in group(records, "corpus", "kind", "of").items()
    ]
    print_table(("corpus", "students", "", *FIGURES, P100), rows)
    correlations = []
    for (corpus, kind), found in group(records, "corpus", "kind").items():
        chosen, shown = (
            [by_seed for _, by_seed in group(some, "seed").items()]
            for _, some in sorted(group(found, "half").items())
        )
        best = max(FIGURES, key=lambda figure: _mean_correlation(chosen, figure))
        for figure in FIGURES:
            low, high = interval(shown, figure)
            mean, mark = _mean_correlation(shown, figure), " *" if figure == best else ""
            of_half = f"{_mean_correlation(chosen, figure):.2f}"
            row = [corpus, kind, figure + mark, of_half, f"{mean:.2f} [{low:.2f}, {high:.2f}]"]
            correlations.append(row)
    print_table(("corpus", "students", "* chosen", "chosen on", "shown on"), correlations)


def _mean_correlation(runs: list[list[Record]], figure: str) -> float:
    return float(np.mean([correlation(some, figure) for some in runs]))


def correlation(runs: list[Record], figure: str) -> float:
    """Return the rank correlation of a figure with p@100 over students; 0 if either is constant."""
    columns = [[run[name] for run in runs] for name in (figure, P100)]
    if any(len(set(values)) == 1 for values in columns):
        return 0.0
    return float(spearmanr(*columns).statistic)


def interval(runs: list[list[Record]], figure: str) -> tuple[float, float]:
    """Return the interval of the mean correlation of runs; runs and students are resampled."""
    rng = np.random.default_rng(0)
    means = []
    for _ in range(SAMPLES):
        drawn = [runs[number] for number in rng.integers(len(runs), size=len(runs))]
        chosen = rng.integers(len(runs[0]), size=len(runs[0]))
        means.append(_mean_correlation([[run[i] for i in chosen] for run in drawn], figure))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
