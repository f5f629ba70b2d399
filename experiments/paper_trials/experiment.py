"""Ideas of the five papers beside what hummingbit does today.

Each part chooses the settings of an idea on some data, and compares the chosen ones with what users
have today on other data. Intervals are of 95 %, by a bootstrap over runs and queries. Each part is
a module with `configure` and `run`.
"""

from __future__ import annotations

import argparse

from experiments.paper_trials.taught import add_model_options
from experiments.parts import configure_parts

SUMMARY = "ideas of the papers beside what users have today"
NEEDS = ", with the encoder that ships or a model"

PARTS = {
    "class-tree": "experiments.paper_trials.class_tree",
    "coherence-alarm": "experiments.paper_trials.coherence_alarm",
    "none-of-these": "experiments.paper_trials.none_of_these",
    "graded-judgements": "experiments.paper_trials.graded_judgements",
    "top-of-list": "experiments.paper_trials.top_of_list",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    configure_parts(parser, PARTS, "results/paper-trials")
    add_model_options(parser)
