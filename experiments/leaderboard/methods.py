"""The methods of the leaderboard, by name. This module is cheap to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from experiments.leaderboard.contract import Learn


@dataclass(frozen=True)
class Entry:
    """A method: its module and the name of its function there.

    `reads_labels` is true if it learns from labels, and `takes_vectors` if it learns from sentence
    vectors instead of texts.
    """

    summary: str
    module: str
    function: str = "learn"
    reads_labels: bool = False
    takes_vectors: bool = False

    def load(self) -> Learn:
        """Import the method."""
        return cast(Learn, getattr(import_module(self.module), self.function))


_PACKAGE = "experiments.leaderboard"

METHODS: Mapping[str, Entry] = {
    "lsh": Entry("random hyperplanes (Charikar 2002)", f"{_PACKAGE}.linear", "lsh"),
    "pca-sign": Entry("signs along principal directions", f"{_PACKAGE}.linear", "pca_sign"),
    "itq": Entry("the same, turned (Gong and Lazebnik 2011)", f"{_PACKAGE}.linear", "itq"),
    "spectral": Entry("spectral hashing (Weiss et al. 2008)", f"{_PACKAGE}.spectral_hashing"),
    "vdsh": Entry("Gaussian autoencoder (Chaidaroon and Fang 2017)", f"{_PACKAGE}.vdsh"),
    "nash": Entry("Bernoulli autoencoder (Shen et al. 2018)", f"{_PACKAGE}.nash"),
    "bmsh": Entry("the same with a mixture prior (Dong et al. 2019)", f"{_PACKAGE}.bmsh"),
    "pairrec": Entry("pairwise reconstruction (Hansen et al. 2020)", f"{_PACKAGE}.pairrec"),
    "b-vae": Entry("`train b-vae`", f"{_PACKAGE}.trained", "b_vae"),
    "ict": Entry("`train ict`, ours", f"{_PACKAGE}.trained", "ict"),
    "sentence-lsh": Entry(
        "random hyperplanes of sentence vectors", f"{_PACKAGE}.linear", "lsh", takes_vectors=True
    ),
    "sentence-itq": Entry(
        "ITQ of sentence vectors", f"{_PACKAGE}.linear", "itq", takes_vectors=True
    ),
    "sentence-pca-sign": Entry(
        "signs along principal directions of sentence vectors",
        f"{_PACKAGE}.linear",
        "pca_sign",
        takes_vectors=True,
    ),
    "sentence-sne": Entry(
        "`train sne` of sentence vectors, ours", f"{_PACKAGE}.linear", "sne", takes_vectors=True
    ),
    "vdsh-s": Entry(
        "VDSH-S, the authors' settings", f"{_PACKAGE}.trained", "vdsh_s_paper", reads_labels=True
    ),
    "psh-gs": Entry(
        "PSH-GS, the authors' settings", f"{_PACKAGE}.trained", "psh_gs_paper", reads_labels=True
    ),
    "ssb-vae-paper": Entry(
        "SSB-VAE, the authors' settings", f"{_PACKAGE}.trained", "ssb_vae_paper", reads_labels=True
    ),
    "ssb-vae": Entry("`train ssb-vae`, ours", f"{_PACKAGE}.trained", "ssb_vae", reads_labels=True),
    "class-codes": Entry(
        "`train class-codes`, ours", f"{_PACKAGE}.trained", "class_codes", reads_labels=True
    ),
}
"""First the methods without labels, then those that learn from a share of them."""
