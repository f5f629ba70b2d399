"""The settings of class codes. This module is cheap to import: it needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from encoder.artifact_files.origins import WORD_VECTOR_CLASSIFIERS
from training.recipe_settings import (
    analyzer_setting,
    check_settings,
    setting,
    summary_weight_setting,
)

CLASS_CODES = "class-codes"
CONTENT_SHARES = (0.5, 0.375, 0.25, 0.125)
"""The shares of content bits that the search tries."""
QUERY_CLASSIFIERS = ("both", "bayes", "ridge", "svm")
CHOSEN = "chosen"
ITQ, ICT = "itq", "ict"
WORDS_AND_CLASSES: Mapping[str, Any] = {
    "content": ICT,
    "content_share": 0.625,
    "certainty_share": 0.0625,
}
"""Settings of codes that find the class of a text and the text itself: of 64 bits, 20 for the
class, 4 for its certainty and 40 for words. With more bits for words, texts are found better and
fewer documents of the same label are found."""


@dataclass(frozen=True)
class ClassCodeRecipe:
    """The settings that, with the documents, determine the outcome of a run.

    A query classifier of "chosen" and a content share of 0 are replaced by a choice on held-out
    clusters.

    Raises:
        RecipeError: if a setting is out of its range. The message names it.
    """

    method: str = setting(CLASS_CODES, "what is trained", CLASS_CODES)
    n_bits: int = setting(32, "bits in a code, a multiple of 8")
    supervision: float = setting(1.0, "share of the labelled documents whose labels are shown")
    seed: int = setting(0, "random seed")
    query_classifier: str = setting(
        CHOSEN,
        "classifier of texts that are queries: two kinds of naive Bayes (bayes), ridge regression"
        " (ridge), ridge regression and naive Bayes (both), support vector machines and naive Bayes"
        " (svm); with word vectors, these and naive Bayes (words), these and bayes (bayes-words) or"
        " these and svm (svm-words); or the one chosen by trials",
        *(CHOSEN, *QUERY_CLASSIFIERS, *WORD_VECTOR_CLASSIFIERS),
    )
    content_share: float = setting(
        0.0,
        "share of the bits for content, which tell documents of a class apart; 0: chosen by trials",
    )
    content: str = setting(
        ITQ,
        "how the bits of content are learned: latent semantics rounded to bits (itq), or finding a"
        " text by a few of its words (ict)",
        *(ITQ, ICT),
    )
    certainty_share: float = setting(
        0.125, "share of the bits for the certainty of a document's class"
    )
    label_weight: int = setting(
        1,
        "times that a text counts whose label is shown, beside texts of soft labels, in the"
        " classifier of documents; with more, the surest documents of a class are those of shown"
        " labels",
    )
    epochs: int = setting(15, "passes over the documents that learn content (ict)")
    least_batches: int = setting(
        2000, "least number of batches; with few documents, more passes are made to reach it (ict)"
    )
    max_terms: int = setting(100_000, "terms in the vocabulary")
    max_words: int = setting(
        1,
        "words in a term: 1, or 2 for pairs of neighbouring words, too, with half the weight of a"
        " word",
    )
    analyzer: str = analyzer_setting()
    summary_weight: float = summary_weight_setting(ICT)
    validation_share: float = setting(0.1, "share of the labelled documents held out")

    def __post_init__(self) -> None:
        check_settings(
            self,
            {
                "least_batches": (self.least_batches >= 0, "0 or more"),
                "max_words": (self.max_words in (1, 2), "1 or 2"),
                "label_weight": (1 <= self.label_weight <= 100, "from 1 to 100"),
                "seed": (0 <= self.seed < 2**32, "from 0 to 2³² − 1"),
                "content_share": (0 <= self.content_share <= 0.75, "from 0 to 0.75"),
                "certainty_share": (0 <= self.certainty_share <= 0.25, "from 0 to 0.25"),
            },
        )

    def widths(self, content_share: float) -> tuple[int, int, int]:
        """Return the numbers of bits for the class, its certainty and the content."""
        content = max(1, round(self.n_bits * content_share))
        certainty = round(self.n_bits * self.certainty_share)
        return self.n_bits - content - certainty, certainty, content

    def can_hold(self, n_classes: int, content_share: float = CONTENT_SHARES[-1]) -> bool:
        """Return whether there are as many codewords as classes, with this share of content."""
        return n_classes <= 1 << self.widths(content_share)[0]
