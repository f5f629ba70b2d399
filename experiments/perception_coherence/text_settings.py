"""Choosing each objective's settings, by the coherence of documents held out, without labels.

Every objective gets the same search on Snippets at 64 bits: the three relaxations of the bits
first, then another step size, then another word dropout, each kept if it raises the coherence level
of the tenth of the training documents that are held out. p@100 on those is printed to look at and
has no part in the choice; no test document is looked at.
"""

from __future__ import annotations

import argparse
from typing import Any

from experiments.perception_coherence.text_corpora import TaughtCorpus, read_taught
from experiments.perception_coherence.text_students import student_of
from experiments.result_tables import Record, print_table, save_records
from training.distillation.distillation_recipe import OBJECTIVES, DistillationRecipe

START: dict[str, Any] = {
    "relaxation": "tanh",
    "learning_rate": 3e-3,
    "word_dropout": 0.5,
    "epochs": 20,
}
STEPS: tuple[dict[str, Any], ...] = (
    {"relaxation": "bernoulli", "temperature": 0.67},
    {"relaxation": "straight-through"},
    {"learning_rate": 1e-3},
    {"learning_rate": 1e-2},
    {"word_dropout": 0.25},
)


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument("--search", nargs="+", default=list(OBJECTIVES), choices=OBJECTIVES)


def run(args: argparse.Namespace) -> int:
    """Search, and print every trial and the settings chosen."""
    corpus = read_taught("snippets", args)
    records: list[Record] = []
    for objective in args.search:
        trials = _search(corpus, objective, args)
        records += trials
        _print(objective, trials)
        save_records(args, records)
    return 0


def _search(corpus: TaughtCorpus, objective: str, args: argparse.Namespace) -> list[Record]:
    best = _try(corpus, objective, START, args)
    trials = [best]
    for step in STEPS:
        # A temperature belongs to the relaxation that it came with.
        settings = {**best["settings"], **step}
        if "relaxation" in step and "temperature" not in step:
            settings.pop("temperature", None)
        trials.append(_try(corpus, objective, settings, args))
        best = max(best, trials[-1], key=lambda trial: trial["coherence"])
    return trials


def _try(
    corpus: TaughtCorpus, objective: str, settings: dict[str, Any], args: argparse.Namespace
) -> Record:
    recipe = DistillationRecipe(objective=objective, **settings)
    name = "-".join([objective, *(str(value) for value in settings.values())])
    encoder = student_of(corpus, recipe, args.work_dir / "text-settings" / name)
    held_out = encoder.metadata["coherence"]
    return {
        "part": "text-settings",
        "dataset": corpus.name,
        "method": objective,
        "seed": recipe.seed,
        "settings": settings,
        "coherence": held_out["level"],
        "neighbours": held_out["neighbours"],
        "p100": encoder.metadata["validation"]["expected"]["P@100"],
    }


def _print(objective: str, trials: list[Record]) -> None:
    best = max(trials, key=lambda trial: trial["coherence"])
    rows = [
        [
            objective + (" *" if trial is best else ""),
            " ".join(f"{name}={value}" for name, value in trial["settings"].items()),
            *(f"{trial[key]:.3f}" for key in ("coherence", "neighbours", "p100")),
        ]
        for trial in trials
    ]
    print_table(("objective", "settings", "coherence", "neighbours", "p@100"), rows)
    print(flush=True)
