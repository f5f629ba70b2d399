"""Choosing the settings of each method, by the documents held out of its training documents.

One setting after another is given other values, and the best is kept before the next is tried. A
value is judged by the mean of p@100 over ties of the held-out documents, over every width, share of
labels and seed asked for. No test document is looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from experiments.cells import kind_of, read_split
from experiments.records import Record, print_table, read_records, write_records
from experiments.ssb_vae_presets import write_preset
from training.recipe import METHODS, Recipe
from training.semi_supervised import train

GRID: Mapping[str, tuple[Any, ...]] = {
    "learning_rate": (1e-3, 2e-3, 4e-3),
    "epochs": (15, 30),
    "batch_size": (100, 200),
    "word_dropout": (0.0, 0.25, 0.5),
    "vector_noise": (0.0, 0.5, 1.0),
    "hidden_dropout": (0.0, 0.25, 0.5),
    "batch_norm": (False, True),
    "reconstruction_weight": (1.0, 5.0, 20.0),
    "kl_weight": (1 / 256, 1 / 64, 1 / 16),
    "pairwise_weight": (5e-4, 1.5e-3, 5e-3),
    "code_class_weight": (0.3, 1.0, 3.0),
}
"""The values tried of each setting, in the order in which they are."""


def tune(args: argparse.Namespace) -> int:
    """Search the settings of each neural method asked for; print and keep what is chosen.

    Every run is written down in ``--work-dir``, and none is made twice.
    """
    kind = kind_of(args.dataset, args.vectors)
    for method in args.methods:
        if method not in METHODS:
            print(f"{method} has no settings to choose\n")
            continue
        path = args.work_dir / f"tuning-{kind}-{method}.json"
        data, _ = read_split(args.dataset, args.data_root, args.vectors)
        steps = dict(_steps(METHODS[method].pairs, is_text=data.is_text, only=args.tuned))
        chosen, trials = _search(_Judge(args, method, data.sha256, path), steps)
        _print(method, trials)
        write_preset(args.presets, kind, method, chosen)
        print(f"{args.presets}: [{kind}.{method}] {_named(chosen)}\n", flush=True)
    return 0


def _steps(
    pairs: str, *, is_text: bool, only: list[str] | None
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the settings that mean something to a method, with the values to try."""
    idle = {"vector_noise"} if is_text else {"word_dropout", "hidden_dropout"}
    idle |= {"code_class_weight", "hidden_dropout"} if pairs != "all" else set()
    idle |= {"pairwise_weight"} if pairs == "none" else set()
    for name, values in GRID.items():
        if name not in idle and (only is None or name in only):
            yield name, values


def _search(
    judge: _Judge, steps: Mapping[str, tuple[Any, ...]]
) -> tuple[dict[str, Any], list[Record]]:
    """Return what is chosen of each of the settings `steps`, and all that was tried."""
    usual = asdict(Recipe(method=judge.method))
    best = judge({})
    trials = [best]
    for name, values in steps.items():
        known = best["settings"].get(name, usual[name])
        others = [value for value in values if value != known]
        tried = [judge({**best["settings"], name: value}) for value in others]
        trials += tried
        best = max([best, *tried], key=lambda trial: mean(trial["p100"]))
    # Written down in full, so that a default that changes later changes nothing here.
    return {name: best["settings"].get(name, usual[name]) for name in steps}, trials


class _Judge:
    """Gives settings their figure: trains with them and asks the documents held out."""

    def __init__(self, args: argparse.Namespace, method: str, sha256: str, path: Path) -> None:
        self.method = method
        self._args = args
        self._about = {"sha256": sha256, "method": method}
        self._path = path
        self._records = read_records(path) if path.exists() else []

    def __call__(self, settings: dict[str, Any]) -> Record:
        """Return `settings` with the figures of all runs, in one order for all settings."""
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
        return {"settings": settings, "p100": [self._found(recipe) for recipe in recipes]}

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


def _print(method: str, trials: list[Record]) -> None:
    best = max(trials, key=lambda trial: mean(trial["p100"]))
    rows = [
        [method + (" *" if trial is best else ""), _named(trial["settings"]), _figure(trial)]
        for trial in trials
    ]
    print_table(("method", "settings", "p@100 over ties, held out"), rows)


def _figure(trial: Record) -> str:
    figures = trial["p100"]
    deviation = f" ± {stdev(figures):.4f}" if len(figures) > 1 else ""
    return f"{mean(figures):.4f}{deviation}"


def _named(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "the defaults"
