"""What the codes of a method find: all documents, or those of classes that were not learned from.

Every training document is learned from and makes the database; the test documents are the queries.
Where classes are unseen, the documents that have none of them are learned from, and the queries ask
for them.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from evaluation.relevance import LabelSet
from evaluation.retrieval import evaluate_codes
from experiments.leaderboard.contract import Learn, Task
from experiments.result_tables import Record
from training.data import Rows, TrainingData

METRICS = ("P@100", "mAP@100")


def measure(learn: Learn, task: Task, queries: TrainingData, *, unseen: bool = False) -> Record:
    """Return the figures of a method: as served, tie-averaged, distinct codes and CPU seconds.

    With `unseen`, the documents of unseen classes are taken out of those of `task` for learning.
    The seconds are those of all processors while the method learns; encoding is not counted.
    """
    documents = known = task.data
    asked_for = unseen_classes(documents.classes) if unseen else documents.classes
    if unseen:
        seen = ~documents.tags[:, np.isin(documents.classes, asked_for)].any(axis=1)
        known = rows_of(documents, np.flatnonzero(seen))
    query_labels = [only(labels, asked_for) for labels in queries.labelled().labels]
    asking = np.flatnonzero([bool(labels) for labels in query_labels])
    queries = rows_of(queries, asking)
    began = time.process_time()
    encode = learn(replace(task, data=known))
    seconds = time.process_time() - began
    found = evaluate_codes(
        encode(queries.inputs),
        [query_labels[row] for row in asking],
        encode(documents.inputs),
        documents.labelled().labels,
        METRICS,
    )
    return {
        "p100": found.metrics["P@100"],
        "p100_expected": found.expected["P@100"],
        "map100_expected": found.expected["mAP@100"],
        "distinct_codes": found.distinct_codes,
        "cpu_seconds": seconds,
        "asked": len(queries),
    }


def unseen_classes(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return every second class in alphabetical order, the first one left."""
    return tuple(sorted(classes)[1::2])


def only(labels: LabelSet, classes: tuple[str, ...]) -> LabelSet:
    """Return those of the labels that are among `classes`."""
    return tuple(label for label in labels if label in classes)


def rows_of(data: TrainingData, rows: Rows) -> TrainingData:
    """Return the documents of `rows`, with the classes that they have."""
    ids = tuple(data.ids[row] for row in rows.tolist())
    present = np.flatnonzero(data.tags[rows].any(axis=0))
    classes = tuple(data.classes[column] for column in present)
    tags = data.tags[np.ix_(rows, present)]
    return replace(data, ids=ids, inputs=data.take(rows), classes=classes, tags=tags)
