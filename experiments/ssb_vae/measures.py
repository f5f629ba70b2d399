"""Measures that a code of the class alone fails, beside p@100.

``--measures`` trains each method like the tables do and prints, tie-averaged:

- p@100: documents with the query's class are relevant;
- nDCG@100: the gain is the number of shared levels of dotted class names (``rec.sport.hockey``);
- unseen: p@100 among the documents of every second class, with queries of these classes and codes
  trained without their labels;
- nearest: the share of the ten nearest documents among the first 100, by TF-IDF cosine or by the
  cosine of vectors;
- items: the query is the subject line of a post, which its text does not contain; success if the
  post or another of its thread is among the first ten (20 Newsgroups).

Below the table, a sentence for each measure compares the first of ``--methods`` with the best of
the others.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.cells import CLASSIFIER_OF, Cell, trained_encoder
from experiments.code_version import code_version
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.splits import read_split
from experiments.ssb_vae.measure_comparison import compare_measures
from hummingbit.encoder.artifact import read_classifier
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.evaluation.baselines import ClassifierReference, class_bits, class_predictors
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.evaluation.nearness import nearest_rows
from hummingbit.evaluation.relevance import LabelSet
from hummingbit.evaluation.result import PerQuery
from hummingbit.foundation.files import replace_file
from hummingbit.training.data import TrainingData

MEASURES = ("p@100", "nDCG@100", "unseen", "nearest", "items")
_MAX_QUERIES = 1000
_NEAREST = 10
_WITH_SUBJECTS = "20news"
_SUBJECT = re.compile(r"^Subject:[ \t]*(.*)$", re.MULTILINE)
_REPLY = re.compile(r"^(?:\s*re\s*:)+\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Hashing:
    """The functions that encode documents and queries."""

    documents: Callable[[Inputs], Codes]
    queries: Callable[[Inputs], Codes]

    def values(
        self,
        documents: TrainingData,
        labels: Sequence[LabelSet],
        queries: Inputs,
        query_labels: Sequence[LabelSet],
        metric: str,
        *,
        hierarchy: bool = False,
    ) -> PerQuery:
        """Return the tie-averaged metric of each query; documents with its label are relevant."""
        codes = (self.queries(queries), query_labels, self.documents(documents.inputs), labels)
        return evaluate_codes(*codes, [metric], hierarchy=hierarchy).expected_per_query[metric]


class Measured(NamedTuple):
    """The record of a run of a method, and the values of each measure by query, float64[Q]."""

    record: Record
    values: Mapping[str, PerQuery]


def print_measures(args: argparse.Namespace, cells: Sequence[Cell]) -> int:
    """Measure every cell, print a table and compare; values saved by the same code are reused."""
    measured = [run for cell in cells for run in _saved_or_measured(cell, args.data_root)]
    records = [run.record for run in measured]
    save_records(args, records)
    rows = []
    for key, runs in group(records, "dataset", "n_bits", "supervision", "method").items():
        available = [name for name in MEASURES if runs[0].get(name) is not None]
        figures = {name: mean_and_deviation(runs, name) for name in available}
        rows.append([*map(str, key), *(figures.get(name, "–") for name in MEASURES)])
    print_table(("data set", "bits", "ρ", "method", *MEASURES), rows)
    _print_comparisons(measured, args.methods[0])
    return 0


def _print_comparisons(measured: Sequence[Measured], ours: str) -> None:
    settings: dict[tuple[int, float], dict[str, list[Mapping[str, PerQuery]]]] = {}
    for run in measured:
        setting = settings.setdefault((run.record["n_bits"], run.record["supervision"]), {})
        setting.setdefault(run.record["method"], []).append(run.values)
    for (n_bits, supervision), runs in settings.items():
        sentences = compare_measures(ours, runs)
        if sentences:
            count = len(runs[ours])
            print(
                f"\n{n_bits} bits, ρ = {supervision:g}: {ours} and the best of the others, runs and"
                f" queries resampled, Holm; {count} run{'s'[: count != 1]}"
            )
        for sentence in sentences:
            print(f"  {sentence}")


def _saved_or_measured(cell: Cell, data_root: Path | None) -> list[Measured]:
    path = cell.folder.with_name(f"{cell.folder.name}.measures.json")
    documents, queries = read_split(cell.dataset, data_root, cell.vectors)
    data = [documents.sha256, queries.sha256]
    if cell.dataset == _WITH_SUBJECTS:
        data.append(_whole_posts(data_root).sha256)
    provenance = {"code": code_version(), "data": data, "recipe": asdict(cell.recipe)}
    if path.exists():
        saved = json.loads(path.read_text())
        if {name: saved[name] for name in provenance} == provenance:
            return [_read(run) for run in saved["measured"]]
    print(f"measuring {cell.folder}", file=sys.stderr, flush=True)
    measured = _measure(cell, documents, _sample(queries), data_root)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [
        {**run.record, "per_query": {name: list(each) for name, each in run.values.items()}}
        for run in measured
    ]
    replace_file(path, json.dumps({**provenance, "measured": written}) + "\n")
    return measured


def _read(written: Record) -> Measured:
    values = {name: np.array(each) for name, each in written["per_query"].items()}
    return Measured({name: written[name] for name in written if name != "per_query"}, values)


def _measure(
    cell: Cell, documents: TrainingData, queries: TrainingData, data_root: Path | None
) -> list[Measured]:
    encoder = trained_encoder(documents, cell.recipe, cell.folder)
    unseen = unseen_classes(documents)
    masked = replace(documents, tags=documents.tags & ~unseen)
    folder = cell.folder.with_name(f"{cell.folder.name}-unseen")
    masked_encoder = trained_encoder(masked, cell.recipe, folder)
    recipe = cell.recipe
    setting = {
        "dataset": cell.dataset,
        "n_bits": recipe.n_bits,
        "supervision": recipe.label_fraction,
        "seed": recipe.seed,
    }
    searches = dict(_searches(cell.dataset, documents, queries, data_root))
    unseen_hashings = _hashings(recipe.method, masked_encoder, folder)
    measured = []
    for method, hashing in _hashings(recipe.method, encoder, cell.folder).items():
        values = {name: search(hashing) for name, search in searches.items()}
        values["unseen"] = _evaluate_unseen(unseen_hashings[method], documents, queries)
        values = {name: values[name] for name in MEASURES if name in values}
        figures = {name: float(each.mean()) for name, each in values.items()}
        measured.append(Measured({**setting, "method": method, **figures}, values))
    return measured


def _hashings(method: str, encoder: Encoder, folder: Path) -> Mapping[str, Hashing]:
    """Return the codes of an encoder and, for a method with a fair classifier, its class alone."""
    hashings = {method: Hashing(encoder.encode, encoder.encode_uncorrected_queries)}
    reference = ClassifierReference(encoder, read_classifier(folder, encoder))
    predictors = class_predictors(reference) if method in CLASSIFIER_OF else None
    if predictors is not None:
        n_classes, *maps = predictors
        of_documents, of_queries = (
            partial(class_bits, encoder, predict, n_classes) for predict in maps
        )
        hashings[CLASSIFIER_OF[method]] = Hashing(of_documents, of_queries)
    return hashings


Search = Callable[[Hashing], PerQuery]


def _searches(
    dataset: str, documents: TrainingData, queries: TrainingData, data_root: Path | None
) -> Iterator[tuple[str, Search]]:
    labels, query_labels = documents.labelled().labels, queries.labelled().labels
    yield (
        "p@100",
        lambda hashing: hashing.values(documents, labels, queries.inputs, query_labels, "P@100"),
    )
    if any("." in name for name in documents.classes):
        yield (
            "nDCG@100",
            lambda hashing: hashing.values(
                documents, labels, queries.inputs, query_labels, "nDCG@100", hierarchy=True
            ),
        )
    near = nearest(documents, queries)
    yield (
        "nearest",
        lambda hashing: hashing.values(
            documents, near, queries.inputs, _query_tags(len(queries)), "Recall@100"
        ),
    )
    if dataset == _WITH_SUBJECTS:
        lines, threads = subject_lines(_whole_posts(data_root))
        rows = np.random.default_rng(0).permutation(np.flatnonzero([bool(line) for line in lines]))
        subjects = [lines[row] for row in rows[:_MAX_QUERIES]]
        query_threads = [(threads[row],) for row in rows[:_MAX_QUERIES]]
        thread_labels = [(thread,) if thread else () for thread in threads]
        yield (
            "items",
            lambda hashing: hashing.values(
                documents, thread_labels, subjects, query_threads, "Success@10"
            ),
        )


def _whole_posts(data_root: Path | None) -> TrainingData:
    """Return the documents of :data:`_WITH_SUBJECTS` with their headers, in the same order."""
    posts, _ = read_split(f"{_WITH_SUBJECTS}-headers", data_root)
    return posts


def _evaluate_unseen(hashing: Hashing, documents: TrainingData, queries: TrainingData) -> PerQuery:
    unseen = unseen_classes(documents)
    names = {name for name, hidden in zip(documents.classes, unseen, strict=True) if hidden}
    database = _with_classes(documents, names)
    unseen_queries = _with_classes(queries, names)
    labels = database.labelled().labels
    return hashing.values(
        database, labels, unseen_queries.inputs, unseen_queries.labelled().labels, "P@100"
    )


def _with_classes(data: TrainingData, names: set[str]) -> TrainingData:
    columns = np.isin(data.classes, sorted(names))
    return data.select(np.flatnonzero(data.tags[:, columns].any(axis=1)))


def unseen_classes(data: TrainingData) -> Any:
    """Return a mask of the hidden classes, every second in alphabetical order, ``bool[C]``."""
    return np.arange(len(data.classes)) % 2 == 1


def nearest(documents: TrainingData, queries: TrainingData) -> list[LabelSet]:
    """Return, for each document, the tags of the queries that have it among their ten nearest.

    The tags are those of :func:`_query_tags`; see
    :func:`hummingbit.evaluation.nearness.nearest_rows`.
    """
    tags: list[list[str]] = [[] for _ in range(len(documents))]
    near = nearest_rows(documents.inputs, queries.inputs, _NEAREST)
    for (name,), rows in zip(_query_tags(len(queries)), near, strict=True):
        for row in rows:
            tags[row].append(name)
    return [tuple(own) for own in tags]


def _query_tags(count: int) -> list[LabelSet]:
    """Return a tag of its own for each query."""
    return [(f"query {number}",) for number in range(count)]


def subject_lines(posts: TrainingData) -> tuple[list[str], list[str]]:
    """Return the subjects of posts without ``Re:``, and their threads: subjects in lower case."""
    lines = []
    for post in posts.inputs:
        match = _SUBJECT.search(str(post))
        lines.append(_REPLY.sub("", match[1]).strip() if match else "")
    return lines, [" ".join(line.lower().split()) for line in lines]


def _sample(queries: TrainingData) -> TrainingData:
    rows = np.random.default_rng(0).permutation(len(queries))[:_MAX_QUERIES]
    return queries.select(np.sort(rows))
