"""LSH, PCA-sign, ITQ and SNE, of TF-IDF rows or of sentence vectors: ``linear_codes``."""

from __future__ import annotations

from functools import partial

import numpy as np

from experiments.leaderboard.contract import Encode, Task
from hummingbit.training.linear_codes import fit_linear
from hummingbit.training.pipeline import choose_features


def learn(method: str, task: Task, *, max_terms: float = 10_000) -> Encode:
    """Fit a linear method, by its name, to the documents of a task, with so many terms at most."""
    features = choose_features(task.data, np.arange(len(task.data)), max_terms=int(max_terms))
    rows = features.transform(task.data.inputs)  # type: ignore[arg-type]
    return fit_linear(method, features, rows, task.n_bits, task.seed).encode


lsh = partial(learn, "lsh")
pca_sign = partial(learn, "pca-sign")
itq = partial(learn, "itq")
sne = partial(learn, "sne")
