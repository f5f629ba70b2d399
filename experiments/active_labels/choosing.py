"""The order in which a method suggests documents to label."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD

from experiments.active_labels.orders import suggest
from experiments.code_version import code_version
from experiments.splits import read_split
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.labelling.suggestions import DIRECTIONS, Pool, Rows
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.files import replace_file
from hummingbit.training.text_features import fit_text_features

# Suggestions come in batches: ten documents or, once that is more, a tenth of those labelled.
BATCH = 10
BATCH_DIVISOR = 10
TERMS = 10_000


@cache
def places_of(dataset: str, data_root: Path | None, part: str = "train") -> Floats:
    """Return the documents of a data set as unit vectors, ``float32[N, D]``.

    `part` is ``train`` or ``test``; the principal directions are those of ``train`` for both.
    """
    data, queries = read_split(dataset, data_root)
    texts = [str(text) for text in data.inputs]
    features = fit_text_features(texts, TERMS)
    rows = features.transform(texts)
    model = TruncatedSVD(min(DIRECTIONS, *(size - 1 for size in rows.shape)), random_state=0)
    projected = model.fit_transform(rows)
    if part != "train":
        projected = model.transform(features.transform([str(text) for text in queries.inputs]))
    return unit_rows(np.asarray(projected, dtype=np.float32))


def version_of_data(dataset: str, data_root: Path | None) -> str:
    """Return a short hash of the code and of a data set, for the names of saved results."""
    contents = [part.sha256 for part in read_split(dataset, data_root)]
    return hashlib.sha256("".join([code_version(), *contents]).encode()).hexdigest()[:12]


def label_order(
    dataset: str, method: str, *, seed: int, labels: int, data_root: Path | None, rows: Rows
) -> Rows:
    """Return the first `labels` of `rows` that a method suggests, in order.

    The method sees the true label of a document only after it has suggested the document.
    """
    data, _ = read_split(dataset, data_root)
    places, classes = places_of(dataset, data_root)[rows], data.tags[rows].argmax(axis=1)
    buckets = np.arange(len(rows))
    labelled = np.empty(0, dtype=np.int64)
    while len(labelled) < labels:
        n = min(max(BATCH, len(labelled) // BATCH_DIVISOR), labels - len(labelled))
        seen, numbers = np.unique(classes[labelled], return_inverse=True)
        pool = Pool(places, buckets, labelled, numbers, len(seen))
        labelled = np.concatenate([labelled, suggest(pool, n, method, seed)])
    return np.asarray(rows[labelled])


def saved_label_order(
    folder: Path, dataset: str, method: str, *, seed: int, labels: int, data_root: Path | None
) -> Rows:
    """Return :func:`label_order` over all documents, computed once and saved in `folder`."""
    version = version_of_data(dataset, data_root)
    path = folder / f"order-{dataset}-{method}-{seed}-{labels}-{version}.json"
    if not path.exists():
        data, _ = read_split(dataset, data_root)
        order = label_order(
            dataset,
            method,
            seed=seed,
            labels=labels,
            data_root=data_root,
            rows=np.arange(len(data)),
        )
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(order.tolist()))
    return np.array(json.loads(path.read_text()), dtype=np.int64)
