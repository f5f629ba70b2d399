"""Generative similarity: the experiments of the paper.

Source: Marjieh, Kumar, Campbell et al., "Learning Human-Aligned Representations with Contrastive
Learning and Generative Similarity" (2024). Each part is a module with `configure` and `run`.
"""

from __future__ import annotations

import argparse

from experiments.parts import configure_parts

SUMMARY = "generative similarity: embeddings in which examples of one source lie together"
NEEDS = ", and the dependency group experiments for the losses simclr, sup-con and class-triplets"

PARTS = {
    "gaussian": "experiments.generative_similarity.gaussian",
    "hierarchy": "experiments.generative_similarity.hierarchy",
    "quadrilaterals": "experiments.generative_similarity.quadrilateral_oddball",
    "geoclidean": "experiments.generative_similarity.geoclidean_concepts",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    configure_parts(parser, PARTS, "results/generative-similarity")
