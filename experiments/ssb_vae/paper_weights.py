"""The weights that the authors of SSB-VAE chose, by data set, method and share of labels.

The paper prints the range of the search but not its results. The authors' scripts
(https://github.com/amacaluso/SSB-VAE, ``test_all_*.sh``) have them, the same for 16 and 32 bits.
:func:`hummingbit.training.semi_supervised.paper_settings` says what they weigh. VDSH-S has no
pairs, and its β is `a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from experiments.ssb_vae.variants import COMMON_LABELS, SELF_SUPERVISED, VariantRecipe
from hummingbit.training.semi_supervised import as_in_the_paper, paper_settings

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


def in_the_paper(recipe: VariantRecipe, dataset: str = "snippets") -> VariantRecipe:
    """Return the recipe with the settings of the authors' code for a data set and a method.

    `dataset` is one of :data:`DATASETS`. Terms are weighted by TF-IDF in :data:`TF_IDF_DATASETS`.
    The pair loss of SSB-VAE is Equation (5). That of PSH-GS is Equation (4), with the number of
    labels in common, over all pairs (`unlabelled_differ`); the text of the paper takes pairs of two
    labelled documents.
    """
    method, has_idf = recipe.method, dataset in TF_IDF_DATASETS
    gaussian, bernoulli = _KL_WEIGHTS[dataset]
    settings = paper_settings(
        recipe.label_fraction,
        recipe.n_bits,
        powers=_POWERS[dataset].get(method, _POWERS[dataset]["ssb-vae"]),
        kl_weight=gaussian if method == "vdsh-s" else bernoulli,
    )
    return replace(
        as_in_the_paper(recipe),
        **asdict(settings) | {"features": "tf-idf" if has_idf else "log-tf", "idf_target": has_idf},
        pairwise_warmup=0.0,
        pair_similarity=COMMON_LABELS if method == "psh-gs" else SELF_SUPERVISED,
        unlabelled_differ=True,
    )
