"""Choice of each method's settings, on held-out clusters of its training documents.

Settings are tuned one after another; the best value of each is fixed before the next is tried. The
score of a value is the mean of tie-averaged P@k on held-out clusters of documents
(:mod:`experiments.ssb_vae.held_out`), over the widths, shares of labels and seeds that the options
name. No test document is used.
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
from experiments.ssb_vae.variants import METHODS, PSH_GS, variant_recipe
from hummingbit.encoder.recipes import SSB_VAE

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
    "pairwise_weight": (0.0, 5e-4, 1.5e-3, 5e-3),
    "code_class_weight": (0.3, 1.0, 3.0),
}
"""The values to try of each setting, in the order of tuning."""

_UNTUNED = {"class-codes": "chooses its settings on held-out clusters whenever it is trained"}


def tune(args: argparse.Namespace) -> int:
    """Tune each neural method that the options name; print and save the chosen settings."""
    documents = documents_name(args.dataset, args.vectors)
    records: list[Record] = []
    for method in args.methods:
        if method not in METHODS:
            print(f"{method} {_UNTUNED.get(method, 'has no settings to tune')}\n")
            continue
        scores = HeldOutScores(args, method)
        steps = dict(_steps(method, scores.idle_settings, only=args.tuned))
        chosen, trials = _search(scores, steps)
        _print(method, trials)
        write_preset(args.presets, documents, method, chosen)
        records += [{"method": method, **trial} for trial in trials]
        print(f"{args.presets}: [{documents}.{method}] {_format_settings(chosen)}\n", flush=True)
    save_records(args, records)
    return 0


def _steps(
    method: str, idle_settings: Set[str], *, only: list[str] | None
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the settings that have an effect on a method, with the values to try."""
    idle = set(idle_settings)
    idle |= {"code_class_weight", "hidden_dropout"} if method != SSB_VAE else set()
    idle |= {"pairwise_weight"} if method not in (SSB_VAE, PSH_GS) else set()
    for name, values in GRID.items():
        if name not in idle and (only is None or name in only):
            yield name, values


def _search(
    scores: HeldOutScores, steps: Mapping[str, tuple[Any, ...]]
) -> tuple[dict[str, Any], list[Record]]:
    """Return the chosen value of each setting in `steps`, and the records of all trials."""
    defaults = asdict(variant_recipe(scores.method))
    best = scores({})
    trials = [best]
    for name, values in steps.items():
        current = best["settings"].get(name, defaults[name])
        others = [value for value in values if value != current]
        step_trials = [scores({**best["settings"], name: value}) for value in others]
        trials += step_trials
        best = max([best, *step_trials], key=lambda trial: mean(trial["scores"]))
    # All values are written, so that a later change of a default does not affect them.
    return {name: best["settings"].get(name, defaults[name]) for name in steps}, trials


def _print(method: str, trials: list[Record]) -> None:
    best = max(trials, key=lambda trial: mean(trial["scores"]))
    rows = [
        [
            method + (" *" if trial is best else ""),
            _format_settings(trial["settings"]),
            format_mean(trial["scores"], digits=4),
        ]
        for trial in trials
    ]
    print_table(("method", "settings", "tie-averaged P@k, held-out clusters"), rows)


def _format_settings(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "the defaults"
