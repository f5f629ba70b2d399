"""Choosing the settings of each method, by the documents held out of its training documents.

One setting after another is given other values, and the best is kept before the next is tried. A
value is judged by the mean of tie-averaged p@100 of the held-out documents, over every width, share
of labels and seed asked for. No test document is looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict
from statistics import mean
from typing import Any

from experiments.cells import documents_name
from experiments.result_tables import Record, format_mean, print_table, save_records
from experiments.ssb_vae.held_out import HeldOutScores
from experiments.ssb_vae.presets import write_preset
from training.recipe import METHODS, Recipe

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
    """Search the settings of each neural method asked for; print and keep what is chosen."""
    kind = documents_name(args.dataset, args.vectors)
    records: list[Record] = []
    for method in args.methods:
        if method not in METHODS:
            print(f"{method} has no settings to choose\n")
            continue
        scores = HeldOutScores(args, method)
        steps = dict(_steps(METHODS[method].pairs, scores.idle_settings, only=args.tuned))
        chosen, trials = _search(scores, steps)
        _print(method, trials)
        write_preset(args.presets, kind, method, chosen)
        records += [{"method": method, **trial} for trial in trials]
        print(f"{args.presets}: [{kind}.{method}] {_named(chosen)}\n", flush=True)
    save_records(args, records)
    return 0


def _steps(
    pairs: str, idle_settings: Set[str], *, only: list[str] | None
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the settings that mean something to a method, with the values to try."""
    idle = set(idle_settings)
    idle |= {"code_class_weight", "hidden_dropout"} if pairs != "all" else set()
    idle |= {"pairwise_weight"} if pairs == "none" else set()
    for name, values in GRID.items():
        if name not in idle and (only is None or name in only):
            yield name, values


def _search(
    scores: HeldOutScores, steps: Mapping[str, tuple[Any, ...]]
) -> tuple[dict[str, Any], list[Record]]:
    """Return what is chosen of each of the settings `steps`, and all that was tried."""
    usual = asdict(Recipe(method=scores.method))
    best = scores({})
    trials = [best]
    for name, values in steps.items():
        known = best["settings"].get(name, usual[name])
        others = [value for value in values if value != known]
        tried = [scores({**best["settings"], name: value}) for value in others]
        trials += tried
        best = max([best, *tried], key=lambda trial: mean(trial["p100"]))
    # Written down in full, so that a default that changes later changes nothing here.
    return {name: best["settings"].get(name, usual[name]) for name in steps}, trials


def _print(method: str, trials: list[Record]) -> None:
    best = max(trials, key=lambda trial: mean(trial["p100"]))
    rows = [
        [
            method + (" *" if trial is best else ""),
            _named(trial["settings"]),
            format_mean(trial["p100"], digits=4),
        ]
        for trial in trials
    ]
    print_table(("method", "settings", "tie-averaged p@100, held out"), rows)


def _named(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "the defaults"
