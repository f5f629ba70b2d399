"""The weights that the authors of SSB-VAE chose, by data set, method and share of labels.

The paper prints the range of the search but not its results. The authors' scripts
(https://github.com/amacaluso/SSB-VAE, ``test_all_*.sh``) have them, the same for 16 and 32 bits.
There a run minimizes reconstruction + `b` KL + `a` (`g` class loss + pairs), where pairs are summed
over a batch of M = 100 and divided by the B bits. Here pairs are divided by M. So α is `a` M / B,
β is `a` `g` and λ is `b`. VDSH-S has no pairs, and its β is `a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hummingbit.encoder.recipes import COMMON_LABELS, SELF_SUPERVISED, Recipe

BATCH_SIZE = 100
"""The authors' number of documents in a batch."""

# Ten entries each, for shares of labels of 0.1, 0.2, … 1.0: powers of ten of `a`, and of `g`.
_POWERS: Mapping[str, Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "snippets": {
        "vdsh-s": ((1, 1, 1, 1, 0, 1, 1, 1, 1, 1), (0,) * 10),
        "psh-gs": ((-4, -4, -4, -4, -4, -3, 0, 3, 5, -3), (3, 2, 4, 4, 4, -3, 4, 4, 5, 2)),
        "ssb-vae": ((-4, -2, 4, 4, 1, 1, 0, 5, -1, 4), (4, 5, 4, 4, 4, 3, 4, 5, 3, 3)),
    },
    "20news": {
        "vdsh-s": ((0, 0, 5, 1, 0, 1, 0, 0, 0, 0), (0,) * 10),
        "psh-gs": ((-4, -4, -3, -3, -2, -2, 1, 3, -2, 0), (5, 5, 5, 5, 5, 4, 5, 5, 5, 3)),
        "ssb-vae": ((-3, -3, -3, -3, 5, -1, 2, 0, 0, -2), (3, 3, 5, 3, 5, 5, 3, 4, 4, 3)),
    },
    "tmc": {
        "vdsh-s": ((0, -1, 0, 1, -1, 1, 1, 2, 1, 1), (0,) * 10),
        "psh-gs": ((-4, -5, -4, -4, -4, -4, -4, -4, -4, -4), (5, 6, 6, 6, 6, 6, 6, 6, 6, 6)),
        "ssb-vae": ((-3, -3, -3, -3, -3, -3, -2, -2, -2, -1), (4, 4, 4, 5, 6, 5, 4, 4, 3, 3)),
    },
    "cifar10": {
        "vdsh-s": ((6, 5, 6, 5, 5, 6, 5, 5, 6, 6), (0,) * 10),
        "psh-gs": ((-1, 0, 0, 1, 4, 2, 0, 0, 2, 2), (6, 6, 6, 6, 4, 6, 4, 4, 3, -1)),
        "ssb-vae": ((5, 0, 1, 2, 6, 3, 3, 6, 6, 3), (6, 6, 5, 5, 5, 5, 4, 5, 4, 3)),
    },
}

# λ of VDSH-S, and of the others.
_KL_WEIGHTS = {
    "snippets": (0.125, 0.015625),
    "20news": (0.0625, 0.015625),
    "tmc": (0.0625, 0.000244),
    "cifar10": (0.000008, 0.003906),
}

DATASETS = tuple(_POWERS)
"""The data sets of the paper."""

TF_IDF_DATASETS = ("20news", "tmc")
"""The data sets whose terms the authors weight by TF-IDF, in the input and in the target.

For Snippets they take ln(1 + tf) as input and tf / Σ tf as target.
"""


def paper_weights(dataset: str, method: str, label_fraction: float, n_bits: int) -> dict[str, Any]:
    """Return the authors' `kl_weight` λ, `pointwise_weight` β and `pairwise_weight` α.

    `dataset` is one of :data:`DATASETS`. The share of labels is rounded to a tenth. A method that
    the authors did not train gets the weights of SSB-VAE.
    """
    gaussian, bernoulli = _KL_WEIGHTS[dataset]
    powers = _POWERS[dataset].get(method, _POWERS[dataset]["ssb-vae"])
    tenth = min(9, max(0, round(10 * label_fraction) - 1))
    a, g = (10.0 ** power[tenth] for power in powers)
    return {
        "kl_weight": gaussian if method == "vdsh-s" else bernoulli,
        "pointwise_weight": a * g,
        "pairwise_weight": a * BATCH_SIZE / n_bits,
    }


def as_in_the_paper(recipe: Recipe, dataset: str = "snippets") -> Recipe:
    """Return the recipe with the settings of the authors' code instead of ours.

    Hidden layers are ReLU → BatchNorm. The input is a vector as it is or the terms of a text,
    without dropout, and the target is the terms scaled to a sum of 1. Terms are weighted by TF-IDF
    in :data:`TF_IDF_DATASETS`; otherwise, the input is ln(1 + tf) and the target has tf. Classes
    are predicted by one softmax, also where documents have several labels. The pair loss is
    Equation (5), with a constant weight. That of PSH-GS is Equation (4), with the number of labels
    in common, over all pairs (`unlabelled_differ`); the text of the paper takes pairs of two
    labelled documents. λ, β and α are those of
    :func:`paper_weights`.
    """
    has_idf = dataset in TF_IDF_DATASETS
    return replace(
        recipe,
        terms="frequent",
        features="tf-idf" if has_idf else "log-tf",
        idf_target=has_idf,
        word_dropout=0.0,
        hidden_dropout=0.0,
        vector_noise=0.0,
        scale_vectors=False,
        batch_norm=True,
        soft_labels="none",
        code_class_weight=0.0,
        content_share=0.0,
        epochs=30,
        batch_size=BATCH_SIZE,
        learning_rate=1e-3,
        learning_rate_decay=False,
        pairwise_warmup=0.0,
        pair_similarity=COMMON_LABELS if recipe.method == "psh-gs" else SELF_SUPERVISED,
        softmax_classes=True,
        unlabelled_differ=True,
        reconstruction_weight=1.0,
        **paper_weights(dataset, recipe.method, recipe.label_fraction, recipe.n_bits),
    )
