"""The settings of a run. This module is cheap to import: it needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

from encoder.analyzers import VISIBLE
from training import paper_weights
from training.recipe_settings import (
    analyzer_setting,
    check_analyzer,
    check_settings,
    setting,
    summary_weight_setting,
)


@dataclass(frozen=True)
class Method:
    """The properties of a neural method.

    `pairs` are the pairs of a batch in the pair loss: all, those of two labelled documents, or
    none. With `finds_documents`, the inverse cloze task is a part of the loss: a text is found by a
    few of its own words. With `is_linear`, logits are linear in the words of a text.
    """

    summary: str
    latent: Literal["bernoulli", "gaussian"] = "bernoulli"
    pairs: Literal["all", "labelled", "none"] = "none"
    uses_labels: bool = True
    reconstructs: bool = True
    finds_documents: bool = False
    is_linear: bool = False


METHODS: Mapping[str, Method] = {
    "ssb-vae": Method(
        "the self-supervised Bernoulli autoencoder", pairs="all", finds_documents=True
    ),
    "ict": Method(
        "learns, without labels, to find a text by a few of its words (inverse cloze task)",
        uses_labels=False,
        reconstructs=False,
        finds_documents=True,
        is_linear=True,
    ),
    "psh-gs": Method("pairwise hashing on the pairs of labelled documents", pairs="labelled"),
    "vdsh-s": Method("the semi-supervised Gaussian autoencoder", latent="gaussian"),
    "b-vae": Method("the Bernoulli autoencoder without labels", uses_labels=False),
}
"""The methods of Ñanculef et al. 2020, section 4, by name, and the inverse cloze task alone."""


@dataclass(frozen=True)
class Recipe:
    """The settings that, with the documents, determine the outcome of a run.

    The loss is `reconstruction_weight` · reconstruction + `kl_weight` · KL
    + `pointwise_weight` · class loss + `pairwise_weight` · pairs + `cloze_weight` · inverse cloze
    loss, each a mean over the rows of a batch. A method has only some of the terms.

    Raises:
        RecipeError: if a setting is out of its range. The message names it.
    """

    method: str = setting("ssb-vae", "what is trained", *METHODS)
    n_bits: int = setting(32, "bits in a code, a multiple of 8")
    supervision: float = setting(1.0, "share of the labelled documents whose labels are shown")
    seed: int = setting(0, "random seed")
    epochs: int = setting(15, "passes over the documents")
    least_batches: int = setting(
        2000, "least number of batches; with few documents, more passes are made to reach it (ict)"
    )
    batch_size: int = setting(200, "documents in a batch")
    learning_rate: float = setting(4e-3, "step size of Adam")
    learning_rate_decay: bool = setting(True, "decrease the step size linearly to 0")
    hidden: int = setting(500, "units in each of the two hidden layers (ict has none)")
    hidden_dropout: float = setting(
        0.5, "share of hidden units left out where all labels are shown (ssb-vae, texts)"
    )
    max_terms: int = setting(10_000, "terms in the vocabulary")
    analyzer: str = analyzer_setting()
    terms: str = setting(
        "telling",
        "terms of texts (ssb-vae): those that tell most about soft labels, or the most frequent",
        "telling",
        "frequent",
    )
    temperature: float = setting(0.67, "temperature of the relaxed bits")
    reconstruction_weight: float = setting(1.0, "weight of the reconstruction")
    kl_weight: float = setting(1 / 64, "weight of the divergence from the prior")
    pointwise_weight: float = setting(1.0, "weight of the class loss on labelled documents")
    code_class_weight: float = setting(1.0, "weight of the class loss on the code (ssb-vae)")
    soft_labels: str = setting(
        "linear",
        "probabilities of classes for unlabelled documents (ssb-vae): from linear classifiers, or"
        " none",
        "linear",
        "none",
    )
    pairwise_weight: float = setting(1.5e-3, "weight of the loss on pairs of a batch")
    pairwise_warmup: float = setting(0.5, "share of the run over which the pair weight grows")
    likeness: str = setting(
        "probable",
        "similarity of pairs (ssb-vae): probability by labels and soft labels, or the model's own"
        " predictions, which then learn from it, as in the paper",
        "probable",
        "self-supervised",
    )
    softmax_classes: bool = setting(
        False, "predict one softmax over the classes, also where documents have several labels"
    )
    unlabelled_differ: bool = setting(
        False, "count documents without a label as different from all others (psh-gs)"
    )
    cloze_weight: float = setting(
        1.0, "weight of finding a text by a few of its words (ssb-vae, ict; texts)"
    )
    cloze_scale: float = setting(20.0, "factor of the scores in the inverse cloze loss")
    cloze_shared: float = setting(
        0.9, "share of its target that goes to all texts by similarity; the right one gets the rest"
    )
    cloze_temperature: float = setting(0.05, "temperature of the similarities in that target")
    summary_weight: float = summary_weight_setting("ict")
    content_share: float = setting(
        0.0, "share of the bits that find a text by its words; the others tell classes (ssb-vae)"
    )
    word_dropout: float = setting(0.5, "mean share of a document's words left out of the input")
    vector_noise: float = setting(1.0, "mean length of the noise on a vector, relative to its own")
    scale_vectors: bool = setting(
        True, "scale the vectors of a corpus to a common size, as input and as target"
    )
    features: str = setting(
        "tf-idf", "input of text encoders (with tf-idf, ict has tf as it is)", "tf-idf", "log-tf"
    )
    idf_target: bool = setting(True, "weight the words to reconstruct by their idf")
    batch_norm: bool = setting(False, "normalize the hidden layers over a batch")
    threshold: str = setting("zero", "what a logit must exceed for a 1", "zero", "median")
    validation_share: float = setting(0.1, "share of the labelled documents held out")

    def __post_init__(self) -> None:
        check_settings(self, self._ranges())

    def as_in_the_paper(self, dataset: str = "snippets") -> Recipe:
        """Return the recipe with the settings of the authors' code instead of ours.

        Hidden layers are ReLU → BatchNorm. The input is a vector as it is or the terms of a text,
        without dropout, and the target is the terms scaled to a sum of 1. Terms are weighted by
        TF-IDF in :data:`training.paper_weights.TF_IDF_DATASETS`; otherwise, the input is
        ln(1 + tf) and the target has tf. Classes are predicted by one softmax, also where documents
        have several labels. The pair loss is Equation (5), with a constant weight. That of PSH-GS
        has all pairs (`unlabelled_differ`); the text of the paper takes pairs of two labelled
        documents. λ, β and α are in :mod:`training.paper_weights`.
        """
        has_idf = dataset in paper_weights.TF_IDF_DATASETS
        weights = paper_weights.paper_weights(dataset, self.method, self.supervision, self.n_bits)
        return replace(
            self,
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
            batch_size=paper_weights.BATCH_SIZE,
            learning_rate=1e-3,
            learning_rate_decay=False,
            pairwise_warmup=0.0,
            likeness="self-supervised",
            softmax_classes=True,
            unlabelled_differ=True,
            reconstruction_weight=1.0,
            **weights,
        )

    @property
    def content_bits(self) -> int:
        """The number of bits that find a text by its words; the others are for its class."""
        method = METHODS[self.method]
        has_both = method.finds_documents and method.uses_labels
        return int(self.n_bits * self.content_share) if has_both else 0

    @property
    def finds_documents(self) -> bool:
        """Whether the loss includes the inverse cloze task."""
        return self.method == "ict" or self.content_bits > 0

    def epochs_for(self, documents: int) -> int:
        """Return the number of passes over this many `documents`."""
        if not METHODS[self.method].is_linear:
            return self.epochs
        batches = -(-documents // self.batch_size)
        return max(self.epochs, -(-self.least_batches // max(1, batches)))

    def _ranges(self) -> dict[str, tuple[bool, str]]:
        names = {field.name for field in fields(self)} - {"summary_weight"}
        weights = sorted(name for name in names if name.endswith("_weight"))
        return {
            "least_batches": (self.least_batches >= 0, "0 or more"),
            "batch_size": (self.batch_size >= 2, "at least 2"),
            "temperature": (0 < self.temperature <= 100, "above 0 and at most 100"),
            "cloze_scale": (0 < self.cloze_scale <= 1000, "above 0 and at most 1,000"),
            "cloze_shared": (0 <= self.cloze_shared <= 1, "from 0 to 1"),
            "content_share": (0 <= self.content_share < 1, "at least 0 and below 1"),
            "cloze_temperature": (0 < self.cloze_temperature <= 100, "above 0 and at most 100"),
            "pairwise_warmup": (0 <= self.pairwise_warmup <= 1, "from 0 to 1"),
            "hidden_dropout": (0 <= self.hidden_dropout < 1, "from 0 to below 1"),
            "vector_noise": (0 <= self.vector_noise <= 100, "from 0 to 100"),
            **{name: (0 <= getattr(self, name) < 1e15, "0 or more") for name in weights},
            **(
                {"cloze_weight": (self.cloze_weight > 0, "above 0")} if self.method == "ict" else {}
            ),
        }


@dataclass(frozen=True)
class LinearRecipe:
    """The settings of a linear method, with the same meaning as in :class:`Recipe`.

    `supervision` affects only the classifier baseline.
    """

    method: str
    n_bits: int = 32
    supervision: float = 1.0
    seed: int = 0
    max_terms: int = 10_000
    analyzer: str = VISIBLE.name
    validation_share: float = 0.1

    def __post_init__(self) -> None:
        check_analyzer(self.analyzer)
