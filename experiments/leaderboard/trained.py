"""The methods of ``hummingbit train``, with the settings of SSB-VAE's paper or with ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.leaderboard.contract import Encode, Encodings, Task
from experiments.ssb_vae.paper_weights import DATASETS, in_the_paper
from experiments.ssb_vae.variants import train_variant, variant_recipe
from hummingbit.encoder.recipes import ICT, BaseRecipe, ClassCodeRecipe, ClozeRecipe
from hummingbit.training.class_codes import train_class_codes


def learn(method: str, task: Task, *, paper: bool = False, **settings: float) -> Encode:
    """Train a method of :data:`METHODS`, with `settings` instead of the defaults.

    With `paper`, the settings are those of SSB-VAE's authors; for data sets that they did not use,
    their settings for Snippets.
    """
    common = {
        "n_bits": task.n_bits,
        "seed": task.seed,
        "label_fraction": task.supervision,
        "validation_share": 0.0,
        **settings,
    }
    recipe: BaseRecipe
    if method == ICT:
        recipe = ClozeRecipe(**common)  # type: ignore[arg-type]
    else:
        recipe = variant_recipe(method, **common)
        if paper:
            recipe = in_the_paper(recipe, task.dataset if task.dataset in DATASETS else "snippets")
    with TemporaryDirectory() as folder:
        result = train_variant(task.data, recipe, Path(folder, "encoder"), progress=False)
    return result.encoder.encode


def class_codes(task: Task, **settings: float) -> Encodings:
    """Train codes of class, certainty and content, with `settings` instead of the defaults."""
    recipe = ClassCodeRecipe(
        n_bits=task.n_bits,
        seed=task.seed,
        label_fraction=task.supervision,
        validation_share=0.0,
        **settings,  # type: ignore[arg-type]
    )
    with TemporaryDirectory() as folder:
        encoder = train_class_codes(task.data, recipe, Path(folder, "encoder")).encoder
    return Encodings(encoder.encode, encoder.encode_uncorrected_queries)


b_vae = partial(learn, "b-vae")
ict = partial(learn, "ict")
ssb_vae = partial(learn, "ssb-vae")
vdsh_s_paper = partial(learn, "vdsh-s", paper=True)
psh_gs_paper = partial(learn, "psh-gs", paper=True)
ssb_vae_paper = partial(learn, "ssb-vae", paper=True)
