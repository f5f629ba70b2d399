"""How many labels choosing saves: p@100 against labels, drawn at random and suggested.

The learner is one: SSB-VAE with its soft labels, 32 bits, trained on all training documents with
the labels of those that were chosen. The database is every training document with its true label,
the queries are the test documents, and p@100 is tie-averaged. The methods were chosen on documents
held out of training (``--part methods``); no test document was looked at for that.
"""

from __future__ import annotations

from argparse import ArgumentParser

from experiments.parts import configure_parts

SUMMARY = "Active labels: p@100 reached with fewer labels than drawn at random"
PARTS = {
    "curve": "experiments.active_labels.curve",
    "methods": "experiments.active_labels.methods",
}


def configure(parser: ArgumentParser) -> None:
    """Add the parts and their options."""
    configure_parts(parser, PARTS, "results/active-labels")
