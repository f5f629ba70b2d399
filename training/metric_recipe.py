"""The settings of metric learning. This module is cheap to import: it needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from training.recipe_settings import analyzer_setting, check_settings, setting

OBJECTIVES: Mapping[str, str] = {
    "continuous-histogram": "pairs ordered by similarity, by histograms",
    "generative-similarity": "pairs as near as they are likely to share a source",
    "riemannian-potato": "classes within a number of deviations of their means, others beyond",
}
"""The summary of each objective by name (:mod:`training.objectives.metric_objectives`)."""

SIMILARITIES: Mapping[str, str] = {
    "hierarchy": "by the levels that labels share, in their dotted names or a parent-child file",
    "labels": "1 with a label in common, else 0",
    "graded": "by the difference of numeric labels",
    "pairs": "from a file of pairs",
}
"""The definitions of similarity, by name."""


@dataclass(frozen=True)
class MetricRecipe:
    """The settings that, with the documents, determine the outcome of metric learning.

    `bins`, `similarity_bins` and `balance` are for objectives with histograms, `contrast` and
    `temperature` for generative-similarity, and the `potato` settings for riemannian-potato, which
    uses labels and not similarities. `spd_order` is for documents that are matrices.

    Raises:
        RecipeError: if a setting is out of its range. The message names it.
    """

    method: str = setting("metric", "what is trained", "metric")
    objective: str = setting("continuous-histogram", "the loss", *OBJECTIVES)
    similarity: str = setting("hierarchy", "what makes documents similar", *SIMILARITIES)
    distance: str = setting("cosine", "distance of relaxed codes", "cosine", "hamming")
    n_bits: int = setting(32, "bits in a code, a multiple of 8")
    supervision: float = setting(1.0, "share of the labelled documents whose labels are shown")
    seed: int = setting(0, "random seed")
    epochs: int = setting(30, "passes over the documents, or over the pairs of a file")
    batch_size: int = setting(100, "documents in a batch, or pairs of a file")
    learning_rate: float = setting(1e-3, "step size of Adam")
    hidden: int = setting(500, "units in each of the two hidden layers")
    max_terms: int = setting(10_000, "terms in the vocabulary")
    analyzer: str = analyzer_setting()
    bins: int = setting(100, "nodes of the histogram over distances")
    similarity_bins: int = setting(100, "nodes of the histogram over similarities")
    balance: float = setting(
        0.5, "from 0, all pairs weigh the same, to 1, all degrees of similarity do"
    )
    contrast: str = setting("softmax", "how pairs are compared", "softmax", "softplus", "quadratic")
    temperature: float = setting(0.1, "distance that makes a triplet e times as probable")
    potato_threshold: float = setting(-1.0, "deviations within which a class should stay")
    potato_margin: float = setting(6.0, "further deviations that other classes should stay beyond")
    potato_rate: float = setting(0.2, "how fast means and deviations follow the batches")
    spd_order: int = setting(16, "rows to which SPD layers reduce larger matrices")
    word_dropout: float = setting(0.25, "mean share of a document's words left out of the input")
    features: str = setting("tf-idf", "input of text encoders", "tf-idf", "log-tf")
    threshold: str = setting("zero", "what a logit must exceed for a 1", "zero", "median")
    validation_share: float = setting(0.1, "share of the labelled documents held out")

    def __post_init__(self) -> None:
        check_settings(self, self._ranges())

    def _ranges(self) -> dict[str, tuple[bool, str]]:
        return {
            "batch_size": (self.batch_size >= 3, "at least 3"),
            "bins": (2 <= self.bins <= 10_000, "from 2 to 10,000"),
            "similarity_bins": (2 <= self.similarity_bins <= 10_000, "from 2 to 10,000"),
            "balance": (0 <= self.balance <= 1, "from 0 to 1"),
            "temperature": (0 < self.temperature <= 100, "above 0 and at most 100"),
            "potato_threshold": (abs(self.potato_threshold) <= 100, "from −100 to 100"),
            "potato_margin": (0 <= self.potato_margin <= 100, "from 0 to 100"),
            "potato_rate": (0 < self.potato_rate <= 1, "above 0 and at most 1"),
            "spd_order": (1 <= self.spd_order <= 512, "from 1 to 512"),
        }
