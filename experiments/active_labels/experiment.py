"""How many labels suggestions save: p@100 against the number of random and of suggested labels.

The learner is the same for both, by default SSB-VAE with soft labels and 32 bits. It is trained on
all training documents with the labels of some. The database is every training document with its
true label, the queries are the test documents, and p@100 is tie-averaged. The default method was
selected on documents held out of training (``--part methods``), without any test document.
"""

from __future__ import annotations

from argparse import ArgumentParser

from experiments.parts import configure_parts

SUMMARY = "active labels: how many labels are saved by choosing which documents to label"
PARTS = {
    "curve": "experiments.active_labels.curve",
    "methods": "experiments.active_labels.methods",
}


def configure(parser: ArgumentParser) -> None:
    """Add the parts and their options."""
    configure_parts(parser, PARTS, "results/active-labels")
