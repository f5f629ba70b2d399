"""The retrieval figures of a method: by labels, by unseen labels, or of judged queries.

The database is every training document; the test documents are the queries. The method learns from
the whole database or, for unseen classes, from the documents without those classes; the queries are
then the test documents with those classes.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from experiments.leaderboard.contract import Learn, Task, encodings_of
from experiments.result_tables import Record
from hummingbit.encoder.encoder import Inputs
from hummingbit.evaluation.evaluate import evaluate_codes, evaluate_ranking
from hummingbit.evaluation.relevance import LabelSet, Relevance
from hummingbit.training.data import Rows, TrainingData

METRICS = ("P@100", "mAP@100")
JUDGED_METRIC = "nDCG@10"


def measure(learn: Learn, task: Task, queries: TrainingData, *, unseen: bool = False) -> Record:
    """Return the figures of a method: as served, tie-averaged, distinct codes and CPU seconds.

    With `unseen`, the method does not learn from the documents of unseen classes. The seconds are
    the processor time of training, without encoding.
    """
    documents = training = task.data
    query_classes = unseen_classes(documents.classes) if unseen else documents.classes
    if unseen:
        seen = ~documents.tags[:, np.isin(documents.classes, query_classes)].any(axis=1)
        training = rows_of(documents, np.flatnonzero(seen))
    query_labels = [keep_labels(labels, query_classes) for labels in queries.labelled().labels]
    query_rows = np.flatnonzero([bool(labels) for labels in query_labels])
    queries = rows_of(queries, query_rows)
    began = time.process_time()
    encodings = encodings_of(learn(replace(task, data=training)))
    seconds = time.process_time() - began
    evaluation = evaluate_codes(
        encodings.queries(queries.inputs),
        [query_labels[row] for row in query_rows],
        encodings.documents(documents.inputs),
        documents.labelled().labels,
        METRICS,
    )
    return {
        "p100": evaluation.metrics["P@100"],
        "p100_expected": evaluation.expected["P@100"],
        "map100_expected": evaluation.expected["mAP@100"],
        "distinct_codes": evaluation.distinct_codes,
        "cpu_seconds": seconds,
        "asked": len(queries),
    }


def measure_judged(learn: Learn, task: Task, queries: Inputs, relevance: Relevance) -> Record:
    """Return the tie-averaged nDCG@10 of judged queries, distinct codes and CPU seconds."""
    began = time.process_time()
    encodings = encodings_of(learn(task))
    seconds = time.process_time() - began
    evaluation = evaluate_ranking(
        encodings.queries(queries),
        encodings.documents(task.data.inputs),
        relevance,
        [JUDGED_METRIC],
    )
    return {
        "ndcg10_expected": evaluation.expected[JUDGED_METRIC],
        "distinct_codes": evaluation.distinct_codes,
        "cpu_seconds": seconds,
        "asked": len(queries),
    }


def unseen_classes(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return every second class in alphabetical order, starting with the second."""
    return tuple(sorted(classes)[1::2])


def keep_labels(labels: LabelSet, classes: tuple[str, ...]) -> LabelSet:
    """Return the labels that are in `classes`."""
    return tuple(label for label in labels if label in classes)


def rows_of(data: TrainingData, rows: Rows) -> TrainingData:
    """Return the documents of `rows`, with only the classes that occur in them."""
    present = np.flatnonzero(data.tags[rows].any(axis=0))
    classes = tuple(data.classes[column] for column in present)
    tags = data.tags[np.ix_(rows, present)]
    return replace(data.select(rows, tags), classes=classes)
