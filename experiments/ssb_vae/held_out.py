"""Scores of settings on held-out clusters of training documents, without any test document.

:mod:`hummingbit.training.model_selection` says what a run holds out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from experiments.cells import documents_name
from experiments.code_version import code_version
from experiments.processes import map_runs
from experiments.result_tables import Record, read_records, write_records
from experiments.splits import read_split
from hummingbit.encoder.recipes import Recipe
from hummingbit.training.model_selection import hold_out_grouped_fold, score


def idle_settings(*, is_text: bool) -> frozenset[str]:
    """Return the names of settings that have no effect on texts, or on vectors."""
    if is_text:
        return frozenset({"vector_noise", "scale_vectors"})
    return frozenset({"terms", "word_dropout", "hidden_dropout", "features", "idf_target"})


class HeldOutScores:
    """Trains with settings and scores them on the clusters held out.

    The data set, widths, shares of labels and seeds come from the options of the experiment. Every
    run is saved in ``--work-dir`` and reused by the same code.
    """

    def __init__(self, args: argparse.Namespace, method: str) -> None:
        self.method = method
        self._args = args
        documents = documents_name(args.dataset, args.vectors)
        data, _ = read_split(args.dataset, args.data_root, args.vectors)
        self.idle_settings = idle_settings(is_text=data.is_text)
        self._provenance = {"sha256": data.sha256, "method": method, "code": code_version()}
        self._path: Path = args.work_dir / f"held-out-{documents}-{method}.json"
        self._records = read_records(self._path) if self._path.exists() else []

    def __call__(self, settings: Mapping[str, Any]) -> Record:
        """Return `settings` with their tie-averaged P@k, a figure for each run.

        The runs are ordered by width, then by share of labels, then by seed.
        """
        args = self._args
        recipes = [
            Recipe(
                method=self.method,
                n_bits=n_bits,
                label_fraction=supervision,
                seed=seed,
                **settings,
            )
            for n_bits in args.bits
            for supervision in args.supervision
            for seed in range(args.seeds)
        ]
        missing = [recipe for recipe in recipes if self._saved_score(recipe) is None]
        run = partial(_train_and_score, args.dataset, args.data_root, args.vectors)
        for recipe, figure in zip(missing, map_runs(run, missing, args.jobs), strict=True):
            self._records.append({**self._provenance, "recipe": asdict(recipe), "score": figure})
            write_records(self._path, self._records)
        return {
            "settings": dict(settings),
            "scores": [self._saved_score(recipe) for recipe in recipes],
        }

    def _saved_score(self, recipe: Recipe) -> float | None:
        key = {**self._provenance, "recipe": asdict(recipe)}
        for record in self._records:
            if key.items() <= record.items():
                return float(record["score"])
        return None


def _train_and_score(
    dataset: str, data_root: Path | None, vectors: Path | None, recipe: Recipe
) -> float:
    """Return the tie-averaged P@k, the mean over the held-out clusters, which weigh the same."""
    data, _ = read_split(dataset, data_root, vectors)
    return score(hold_out_grouped_fold(data, recipe), recipe)
