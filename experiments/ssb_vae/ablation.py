"""Ablation of SSB-VAE's recipe: runs without one of its parts at a time.

A recipe is scored by tie-averaged P@k on held-out clusters of the training documents
(:mod:`experiments.ssb_vae.held_out`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.result_tables import Record, format_mean, print_table, save_records
from experiments.ssb_vae.held_out import HeldOutScores
from experiments.ssb_vae.paper_weights import in_the_paper
from experiments.ssb_vae.variants import VariantRecipe

_DEFAULTS = asdict(VariantRecipe())
# With the authors' weights for a tenth of the labels of Snippets.
_AUTHORS = {**asdict(in_the_paper(VariantRecipe(label_fraction=0.1))), "label_fraction": 1.0}

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "no-soft-labels": {"soft_labels": False},
    "frequent-terms": {"terms": "frequent"},
    "no-word-dropout": {"word_dropout": 0.0},
    "no-hidden-dropout": {"hidden_dropout": 0.0},
    "no-noise": {"vector_noise": 0.0},
    "unscaled-vectors": {"scale_vectors": False},
    "no-code-head": {"code_class_weight": 0.0},
    "pair-loss": {"pairwise_weight": 1.5e-3, "pairwise_warmup": 0.5},
    "light-pair-loss": {"pairwise_weight": 1e-4, "pairwise_warmup": 0.5},
    "pair-loss-without-warmup": {"pairwise_weight": 1.5e-3},
    "no-reconstruction": {"reconstruction_weight": 0.0},
    "log-tf": {"features": "log-tf"},
    "no-idf-target": {"idf_target": False},
    "batch-norm": {"batch_norm": True},
    "constant-step": {"learning_rate_decay": False},
    "batches-of-100": {"batch_size": 100},
    "30-epochs": {"epochs": 30},
    "authors": {name: value for name, value in _AUTHORS.items() if value != _DEFAULTS[name]},
}
"""The settings in which each run differs from the default recipe, by the name of the change."""


def ablate(args: argparse.Namespace) -> int:
    """Score the default recipe and the changes that the options name; print a table."""
    scores = HeldOutScores(args, "ssb-vae")
    runs: dict[str, Mapping[str, Any]] = {"default": {}}
    for name in args.ablate or CHANGES:
        if not scores.idle_settings.issuperset(CHANGES[name]):
            runs[name] = CHANGES[name]
    rows = []
    records: list[Record] = []
    for name, settings in runs.items():
        record = scores(settings)
        records.append({"change": name, **record})
        figures = np.reshape(record["scores"], (-1, args.seeds))
        rows.append([name, *map(format_mean, figures.tolist())])
    save_records(args, records)
    cells = [f"{bits} bits, ρ = {rho:g}" for bits in args.bits for rho in args.supervision]
    print_table(("tie-averaged P@k, held-out clusters", *cells), rows)
    return 0
