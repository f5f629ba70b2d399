"""Measures that a code of the class alone fails, beside p@100: what else codes know.

``--measures`` trains each method as the tables do and prints, tie-averaged:

- p@100, where a document is relevant that has the query's class;
- nDCG@100, graded by how many of the dots of the classes' names agree (``rec.sport.hockey``);
- unseen: p@100 among the documents of every second class by queries of these, by codes for which
  the labels of these classes were hidden;
- nearest: the share of the ten nearest documents by TF-IDF cosine among the first 100;
- items: a post is asked for by its subject line, which is not part of it, and it, or another of its
  thread, is among the first ten (20 Newsgroups).
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
from typing import Any

import numpy as np

from encoder.codes import Codes
from encoder.encoder import Encoder, Inputs
from evaluation.baselines import tfidf_scores
from evaluation.classifier_baseline import class_bits
from evaluation.relevance import LabelSet
from evaluation.retrieval import evaluate_codes
from experiments.cells import CLASSIFIER_OF, Cell, trained_encoder
from experiments.code_version import code_version
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.splits import read_split
from foundation.files import replace_file
from training.data import TrainingData

MEASURES = ("p@100", "nDCG@100", "unseen", "nearest", "items")
_QUERIES = 1000
_NEAREST = 10
_SUBJECT = re.compile(r"^Subject:[ \t]*(.*)$", re.MULTILINE)
_REPLY = re.compile(r"^(?:\s*re\s*:)+\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Hashing:
    """What gives documents and queries their codes."""

    documents: Callable[[Inputs], Codes]
    queries: Callable[[Inputs], Codes]

    def value(
        self,
        documents: TrainingData,
        labels: Sequence[LabelSet],
        queries: Inputs,
        wanted: Sequence[LabelSet],
        metric: str,
        *,
        hierarchy: bool = False,
    ) -> float:
        """Return the tie-averaged value of a metric."""
        codes = (self.queries(queries), wanted, self.documents(documents.inputs), labels)
        return evaluate_codes(*codes, [metric], hierarchy=hierarchy).expected[metric]


def print_measures(args: argparse.Namespace, cells: Sequence[Cell]) -> int:
    """Measure every cell, then print a table; cells measured before by the same code are read."""
    records = [record for cell in cells for record in _records(cell, args.data_root)]
    save_records(args, records)
    rows = []
    for key, runs in group(records, "dataset", "n_bits", "supervision", "method").items():
        shown = [one for one in MEASURES if runs[0].get(one) is not None]
        figures = {one: mean_and_deviation(runs, one) for one in shown}
        rows.append([*map(str, key), *(figures.get(one, "–") for one in MEASURES)])
    print_table(("data set", "bits", "ρ", "method", *MEASURES), rows)
    return 0


def _records(cell: Cell, data_root: Path | None) -> list[Record]:
    path = cell.folder.with_name(f"{cell.folder.name}.measures.json")
    documents, queries = read_split(cell.dataset, data_root, cell.vectors)
    about = {"code": code_version(), "data": documents.sha256, "recipe": asdict(cell.recipe)}
    if path.exists():
        kept = json.loads(path.read_text())
        if {name: kept[name] for name in about} == about:
            return list(kept["records"])
    print(f"measuring {cell.folder}", file=sys.stderr, flush=True)
    records = _measured(cell, documents, _drawn(queries), data_root)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps({**about, "records": records}, indent=1) + "\n")
    return records


def _measured(
    cell: Cell, documents: TrainingData, queries: TrainingData, data_root: Path | None
) -> list[Record]:
    encoder = trained_encoder(documents, cell.recipe, cell.folder)
    unseen = unseen_classes(documents)
    without = replace(documents, tags=documents.tags & ~unseen)
    folder = cell.folder.with_name(f"{cell.folder.name}-unseen")
    other = trained_encoder(without, cell.recipe, folder)
    recipe = cell.recipe
    about = {
        "dataset": cell.dataset,
        "n_bits": recipe.n_bits,
        "supervision": recipe.supervision,
        "seed": recipe.seed,
    }
    asked = dict(_searches(cell.dataset, documents, queries, data_root))
    records = []
    for method, hashing in _hashings(recipe.method, encoder).items():
        figures = {name: search(hashing) for name, search in asked.items()}
        figures["unseen"] = _unseen(_hashings(recipe.method, other)[method], documents, queries)
        records.append({**about, "method": method, **figures})
    return records


def _hashings(method: str, encoder: Encoder) -> Mapping[str, Hashing]:
    """Return the codes of an encoder and, where it has a class code, those of the class alone."""
    found = {method: Hashing(encoder.encode, encoder.encode_uncorrected_queries)}
    code = encoder.class_code
    if code is not None:
        maps = (
            partial(class_bits, encoder, one.predict, len(code.codewords))
            for one in (code.documents, code.queries)
        )
        found[CLASSIFIER_OF[method]] = Hashing(*maps)
    return found


Search = Callable[[Hashing], float]


def _searches(
    dataset: str, documents: TrainingData, queries: TrainingData, data_root: Path | None
) -> Iterator[tuple[str, Search]]:
    labels, wanted = documents.labelled().labels, queries.labelled().labels
    yield (
        "p@100",
        lambda hashing: hashing.value(documents, labels, queries.inputs, wanted, "P@100"),
    )
    if any("." in name for name in documents.classes):
        yield (
            "nDCG@100",
            lambda hashing: hashing.value(
                documents, labels, queries.inputs, wanted, "nDCG@100", hierarchy=True
            ),
        )
    if documents.is_text:
        near = nearest(documents, queries)
        yield (
            "nearest",
            lambda hashing: hashing.value(
                documents, near, queries.inputs, _own(len(queries)), "Recall@100"
            ),
        )
    if dataset == "20news":
        whole, _ = read_split("20news-headers", data_root)
        lines, threads = subject_lines(whole)
        rows = np.random.default_rng(0).permutation(np.flatnonzero([bool(one) for one in lines]))
        asked = [lines[row] for row in rows[:_QUERIES]]
        named = [(threads[row],) for row in rows[:_QUERIES]]
        of_thread = [(one,) if one else () for one in threads]
        yield (
            "items",
            lambda hashing: hashing.value(documents, of_thread, asked, named, "Success@10"),
        )


def _unseen(hashing: Hashing, documents: TrainingData, queries: TrainingData) -> float:
    unseen = unseen_classes(documents)
    names = {name for name, one in zip(documents.classes, unseen, strict=True) if one}
    database = _of_classes(documents, names)
    asking = _of_classes(queries, names)
    labels = database.labelled().labels
    return hashing.value(database, labels, asking.inputs, asking.labelled().labels, "P@100")


def _of_classes(data: TrainingData, names: set[str]) -> TrainingData:
    columns = np.isin(data.classes, sorted(names))
    return _rows(data, np.flatnonzero(data.tags[:, columns].any(axis=1)))


def unseen_classes(data: TrainingData) -> Any:
    """Return which of the classes, in alphabetical order, are hidden: every second, ``bool[C]``."""
    return np.arange(len(data.classes)) % 2 == 1


def nearest(documents: TrainingData, queries: TrainingData) -> list[LabelSet]:
    """Return, for each document, the tags of the queries that have it among their ten nearest.

    The tags are those of :func:`_own`; nearest is by TF-IDF cosine.
    """
    found: list[list[str]] = [[] for _ in range(len(documents))]
    names = iter(_own(len(queries)))
    for block in tfidf_scores(documents.inputs, queries.inputs):
        for scores in block:
            (name,) = next(names)
            for row in np.argsort(-scores, kind="stable")[:_NEAREST]:
                found[row].append(name)
    return [tuple(one) for one in found]


def _own(count: int) -> list[LabelSet]:
    return [(f"query {place}",) for place in range(count)]


def subject_lines(posts: TrainingData) -> tuple[list[str], list[str]]:
    """Return the subject of each post without ``Re:``, and its thread: the same in lower case."""
    lines = []
    for post in posts.inputs:
        found = _SUBJECT.search(str(post))
        lines.append(_REPLY.sub("", found[1]).strip() if found else "")
    return lines, [" ".join(line.lower().split()) for line in lines]


def _drawn(queries: TrainingData) -> TrainingData:
    rows = np.random.default_rng(0).permutation(len(queries))[:_QUERIES]
    return _rows(queries, np.sort(rows))


def _rows(data: TrainingData, rows: Any) -> TrainingData:
    ids = tuple(data.ids[row] for row in rows)
    return replace(data, ids=ids, inputs=data.take(rows), tags=data.tags[rows])
