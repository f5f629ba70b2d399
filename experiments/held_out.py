"""Settings judged by the documents held out of the training documents; no test document is seen."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.cells import kind_of, read_split
from experiments.records import Record, read_records, write_records
from training.recipe import Recipe
from training.semi_supervised import train

_TEXT_SETTINGS = {"terms", "word_dropout", "hidden_dropout", "features", "idf_target"}
_VECTOR_SETTINGS = {"vector_noise", "scale_vectors"}


class Judge:
    """Gives settings their figures: trains with them and asks the documents held out.

    It takes the data set, widths, shares of labels and seeds that the options of an experiment
    name. Every run is written down in ``--work-dir``, and none is made twice.
    """

    def __init__(self, args: argparse.Namespace, method: str) -> None:
        self.method = method
        self._args = args
        kind = kind_of(args.dataset, args.vectors)
        data, _ = read_split(args.dataset, args.data_root, args.vectors)
        self.idle_settings = frozenset(_VECTOR_SETTINGS if data.is_text else _TEXT_SETTINGS)
        """Settings that change nothing for documents of this kind."""
        self._about = {"sha256": data.sha256, "method": method}
        self._path: Path = args.work_dir / f"held-out-{kind}-{method}.json"
        self._records = read_records(self._path) if self._path.exists() else []

    def __call__(self, settings: Mapping[str, Any]) -> Record:
        """Return `settings` with their p@100 over ties, a figure for each run.

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
        for recipe, figure in zip(missing, self._figures(missing), strict=True):
            self._records.append({**self._about, "recipe": asdict(recipe), "p100": figure})
            write_records(self._path, self._records)
        return {"settings": dict(settings), "p100": [self._found(recipe) for recipe in recipes]}

    def _figures(self, recipes: list[Recipe]) -> Iterator[float]:
        """Yield the figures of runs in their order, ``--jobs`` of them computed at a time."""
        args = self._args
        judge = partial(_held_out_figure, args.dataset, args.data_root, args.vectors)
        if args.jobs == 1:
            yield from map(judge, recipes)
            return
        # Processes that are spawned start clean: a forked one would inherit torch's threads.
        with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
            yield from pool.map(judge, recipes)

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
