"""Scores of settings on held-out training documents; no test document is seen."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.cells import documents_name
from experiments.code_version import code_version
from experiments.processes import map_runs
from experiments.result_tables import Record, read_records, write_records
from experiments.splits import read_split
from training.recipe import Recipe
from training.semi_supervised import train


def idle_settings(*, is_text: bool) -> frozenset[str]:
    """Return the settings that change nothing for texts, or for vectors."""
    if is_text:
        return frozenset({"vector_noise", "scale_vectors"})
    return frozenset({"terms", "word_dropout", "hidden_dropout", "features", "idf_target"})


class HeldOutScores:
    """Trains with given settings and scores them on the documents held out.

    It takes the data set, widths, shares of labels and seeds that the options of an experiment
    name. Every run is saved in ``--work-dir``, and none is made twice by the same code.
    """

    def __init__(self, args: argparse.Namespace, method: str) -> None:
        self.method = method
        self._args = args
        kind = documents_name(args.dataset, args.vectors)
        data, _ = read_split(args.dataset, args.data_root, args.vectors)
        self.idle_settings = idle_settings(is_text=data.is_text)
        self._about = {"sha256": data.sha256, "method": method, "code": code_version()}
        self._path: Path = args.work_dir / f"held-out-{kind}-{method}.json"
        self._records = read_records(self._path) if self._path.exists() else []

    def __call__(self, settings: Mapping[str, Any]) -> Record:
        """Return `settings` with their tie-averaged p@100, a figure for each run.

        The runs come in one order for all settings: width by width, in these the shares of labels
        shown, and in these the seeds.
        """
        args = self._args
        recipes = [
            Recipe(
                method=self.method,
                n_bits=n_bits,
                supervision=supervision,
                seed=seed,
                **settings,
            )
            for n_bits in args.bits
            for supervision in args.supervision
            for seed in range(args.seeds)
        ]
        missing = [recipe for recipe in recipes if self._found(recipe) is None]
        scores = partial(_held_out_figure, args.dataset, args.data_root, args.vectors)
        for recipe, figure in zip(missing, map_runs(scores, missing, args.jobs), strict=True):
            self._records.append({**self._about, "recipe": asdict(recipe), "p100": figure})
            write_records(self._path, self._records)
        return {"settings": dict(settings), "p100": [self._found(recipe) for recipe in recipes]}

    def _found(self, recipe: Recipe) -> float | None:
        wanted = {**self._about, "recipe": asdict(recipe)}
        for record in self._records:
            if wanted.items() <= record.items():
                return float(record["p100"])
        return None


def _held_out_figure(
    dataset: str, data_root: Path | None, vectors: Path | None, recipe: Recipe
) -> float:
    data, _ = read_split(dataset, data_root, vectors)
    with TemporaryDirectory() as folder:
        trained = train(data, recipe, Path(folder, "encoder"), progress=False)
    return float(trained.validation["expected"]["P@100"])
