"""Choice of each objective's settings by the coherence of held-out documents, without labels.

Every objective gets the same search on Snippets at 64 bits: first the three relaxations of the
bits, then other step sizes, then another word dropout. A change is kept if it raises the coherence
level of the held-out tenth of the training documents. Their p@100 is printed for information and
does not affect the choice; test documents are not used.
"""

from __future__ import annotations

import argparse
from typing import Any

from experiments.parts import add_choices
from experiments.perception_coherence.rivals import TRANSFER_OBJECTIVES, RivalRecipe
from experiments.perception_coherence.text_corpora import TaughtCorpus, read_taught
from experiments.perception_coherence.text_students import load_or_distill
from experiments.result_tables import Record, print_table, save_records

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
    add_choices(
        group, "--search", TRANSFER_OBJECTIVES, "the objectives whose settings are searched"
    )


def run(args: argparse.Namespace) -> int:
    """Search, and print every trial with the chosen settings marked."""
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
        # A temperature belongs to its relaxation, so it goes when the relaxation changes.
        settings = {**best["settings"], **step}
        if "relaxation" in step and "temperature" not in step:
            settings.pop("temperature", None)
        trials.append(_try(corpus, objective, settings, args))
        best = max(best, trials[-1], key=lambda trial: trial["coherence"])
    return trials


def _try(
    corpus: TaughtCorpus, objective: str, settings: dict[str, Any], args: argparse.Namespace
) -> Record:
    recipe = RivalRecipe(objective=objective, **settings)
    name = "-".join([objective, *(str(value) for value in settings.values())])
    encoder = load_or_distill(corpus, recipe, args.work_dir / "text-settings" / name)
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
