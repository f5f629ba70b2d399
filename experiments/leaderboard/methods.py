"""The methods of the leaderboard, by name. This module is cheap to import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import cast

from experiments.leaderboard.contract import Learn

Grid = Mapping[str, tuple[float, ...]]
"""The values of each setting."""


@dataclass(frozen=True)
class Entry:
    """A method: its module and the name of its function there.

    `reads_labels` is true if it learns from labels, and `takes_vectors` if it learns from sentence
    vectors instead of texts. `grid` has the values of settings that ``--tune`` tries, four
    combinations for each method that has settings and no others from its authors. `chosen` are
    those that it chose; without them, the method has its defaults.
    """

    summary: str
    module: str
    function: str = "learn"
    reads_labels: bool = False
    takes_vectors: bool = False
    grid: Grid = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)

    def load(self, settings: Mapping[str, float] | None = None) -> Learn:
        """Import the method, with `settings` instead of those that were chosen."""
        learn = cast(Learn, getattr(import_module(self.module), self.function))
        return partial(learn, **(self.chosen if settings is None else settings))

    def combinations(self) -> Iterator[dict[str, float]]:
        """Yield the settings of the grid."""
        for values in product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


_PACKAGE = "experiments.leaderboard"
_TERMS = {"max_terms": (2_000.0, 5_000.0, 10_000.0, 20_000.0)}
_NETWORK = {"learning_rate": (1e-3, 2e-3), "kl_weight": (0.1, 1.0)}
_SMASH = {"learning_rate": (1e-3, 2e-3), "relevance_weight": (0.5, 1.0)}
_SMALL_KL = {"learning_rate": (1e-3, 2e-3), "kl_weight": (0.01, 0.1)}
_B_VAE = {"word_dropout": (0.0, 0.25), "reconstruction_weight": (1.0, 5.0)}
_ICT = {"cloze_shared": (0.5, 0.7, 0.9, 1.0)}
_SSB_VAE = {"learning_rate": (2e-3, 4e-3), "word_dropout": (0.1, 0.5)}
_CLASS_CODES = {"content_share": (0.0, 0.25), "certainty_share": (0.125, 0.25)}
_CIBHASH = {"temperature": (0.2, 0.3), "bottleneck": (1e-4, 1e-3)}


def _linear(function: str, summary: str, **chosen: float) -> Entry:
    return Entry(summary, f"{_PACKAGE}.linear", function, grid=_TERMS, chosen=chosen)


def _sentence(function: str, summary: str) -> Entry:
    return Entry(summary, f"{_PACKAGE}.linear", function, takes_vectors=True)


def _network(module: str, summary: str, grid: Grid, **chosen: float) -> Entry:
    return Entry(summary, f"{_PACKAGE}.{module}", grid=grid, chosen=chosen)


def _trained(function: str, summary: str, grid: Grid, **chosen: float) -> Entry:
    return Entry(summary, f"{_PACKAGE}.trained", function, grid=grid, chosen=chosen)


def _labelled(function: str, summary: str, grid: Grid | None = None, **chosen: float) -> Entry:
    return replace(_trained(function, summary, grid or {}, **chosen), reads_labels=True)


METHODS: Mapping[str, Entry] = {
    "lsh": _linear("lsh", "random hyperplanes (Charikar 2002)", max_terms=2_000),
    "pca-sign": _linear("pca_sign", "signs along principal directions"),
    "itq": _linear("itq", "the same, turned (Gong and Lazebnik 2011)"),
    "spectral": Entry(
        "spectral hashing (Weiss et al. 2008)", f"{_PACKAGE}.spectral_hashing", grid=_TERMS
    ),
    "vdsh": _network(
        "vdsh",
        "Gaussian autoencoder (Chaidaroon and Fang 2017)",
        _NETWORK,
        learning_rate=1e-3,
        kl_weight=1.0,
    ),
    "nash": _network("nash", "Bernoulli autoencoder (Shen et al. 2018)", _NETWORK),
    "bmsh": _network("bmsh", "the same with a mixture prior (Dong et al. 2019)", _NETWORK),
    "wish": _network(
        "wish",
        "the same with a topic for each bit (Ye et al. 2020)",
        _SMALL_KL,
        learning_rate=1e-3,
        kl_weight=0.1,
    ),
    "pairrec": _network(
        "pairrec",
        "pairwise reconstruction (Hansen et al. 2020)",
        _SMALL_KL,
        learning_rate=1e-3,
        kl_weight=0.1,
    ),
    "smash": _network("smash", "noisy texts, balanced over a memory (He et al. 2023)", _SMASH),
    "b-vae": _trained(
        "b_vae",
        "Bernoulli autoencoder, ours",
        _B_VAE,
        word_dropout=0.0,
        reconstruction_weight=5.0,
    ),
    "ict": _trained("ict", "`train ict`, ours", _ICT),
    "sentence-lsh": _sentence("lsh", "random hyperplanes of sentence vectors"),
    "sentence-pca-sign": _sentence(
        "pca_sign", "signs along principal directions of sentence vectors"
    ),
    "sentence-itq": _sentence("itq", "ITQ of sentence vectors"),
    "sentence-cibhash": Entry(
        "CIBHash of sentence vectors (Qiu et al. 2021)",
        f"{_PACKAGE}.cibhash",
        takes_vectors=True,
        grid=_CIBHASH,
    ),
    "sentence-sne": _sentence("sne", "`train sne` of sentence vectors, ours"),
    "vdsh-s": _labelled("vdsh_s_paper", "VDSH-S, the authors' settings"),
    "psh-gs": _labelled("psh_gs_paper", "PSH-GS, the authors' settings"),
    "ssb-vae-paper": _labelled("ssb_vae_paper", "SSB-VAE, the authors' settings"),
    "ssb-vae": _labelled("ssb_vae", "`train ssb-vae`, ours", _SSB_VAE),
    "class-codes": _labelled("class_codes", "`train class-codes`, ours", _CLASS_CODES),
}
"""First the methods without labels, then those that learn from a share of them."""
