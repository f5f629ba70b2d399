"""The order in which a method has documents labelled, as `hummingbit label suggest` would ask."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from encoder.features import Floats
from evaluation.labelling.document_vectors import text_vectors
from evaluation.labelling.sampling import Pool, Rows, suggest
from experiments.code_version import code_version
from experiments.splits import read_split
from foundation.files import replace_file
from training.text_features import fit_text_features

# As many labels are asked for at a time as a person might give before looking up; a tenth of the
# labels once that is more.
LABELS_AT_ONCE = 10
SHARE_AT_ONCE = 10
TERMS = 10_000


@cache
def places_of(dataset: str, data_root: Path | None, part: str = "train") -> Floats:
    """Return where the documents of a data set lie, ``float32[N, D]``, rows of unit length.

    `part` is ``train``, whose directions they are, or ``test``.
    """
    data, queries = read_split(dataset, data_root)
    texts = [str(text) for text in data.inputs]
    features = fit_text_features(texts, TERMS)
    rows = features.transform(texts)
    if part == "train":
        return text_vectors(rows)
    query_features = features.transform([str(text) for text in queries.inputs])
    return text_vectors(rows, query_features)


def label_order(
    dataset: str, method: str, *, seed: int, labels: int, data_root: Path | None, rows: Rows
) -> Rows:
    """Return the first `labels` of `rows` that a method has labelled, in their order.

    The true label of a document is known once it was asked for, and no sooner.
    """
    data, _ = read_split(dataset, data_root)
    places, classes = places_of(dataset, data_root)[rows], data.tags[rows].argmax(axis=1)
    buckets = np.arange(len(rows))
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < labels:
        n = min(max(LABELS_AT_ONCE, len(chosen) // SHARE_AT_ONCE), labels - len(chosen))
        seen, numbers = np.unique(classes[chosen], return_inverse=True)
        pool = Pool(places, buckets, chosen, numbers, len(seen))
        chosen = np.concatenate([chosen, suggest(pool, n, method, seed)])
    return np.asarray(rows[chosen])


def kept_order(
    folder: Path, dataset: str, method: str, *, seed: int, labels: int, data_root: Path | None
) -> Rows:
    """Return :func:`label_order` over all documents, computed once and kept in `folder`."""
    path = folder / f"order-{dataset}-{method}-{seed}-{labels}-{code_version()[:12]}.json"
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
