"""The settings of class codes. This module is cheap to import: it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from training.recipe import analyzer_setting, check_settings, setting

CONTENT_SHARES = (0.5, 0.375, 0.25, 0.125)
"""The shares of content bits that the search tries."""
QUERY_CLASSIFIERS = ("both", "bayes", "ridge", "svm")
CHOSEN = "chosen"


@dataclass(frozen=True)
class ClassCodeRecipe:
    """All that decides the outcome of a run besides the documents.

    A setting that is "chosen", or a content share of 0, is chosen by held-out clusters.

    Raises:
        RecipeError: naming the setting that is out of its range.
    """

    method: str = setting("class-codes", "what is trained", "class-codes")
    n_bits: int = setting(32, "bits in a code, a multiple of 8")
    supervision: float = setting(1.0, "share of the labelled documents whose labels are shown")
    seed: int = setting(0, "seed of everything that is drawn")
    query_classifier: str = setting(
        CHOSEN,
        "what tells the class of a text that is a query: complement naive Bayes, ridge regression,"
        " both, support vector machines, or what finds most of the clusters held out",
        *(CHOSEN, *QUERY_CLASSIFIERS),
    )
    content_share: float = setting(
        0.0,
        "share of the bits that tell documents of a class apart; 0: chosen by clusters held out",
    )
    certainty_share: float = setting(
        0.125, "share of the bits that say how certain the class of a document is"
    )
    max_terms: int = setting(100_000, "terms in the vocabulary")
    analyzer: str = analyzer_setting()
    validation_share: float = setting(0.1, "share of the labelled documents held out")

    def __post_init__(self) -> None:
        check_settings(
            self,
            {
                "seed": (0 <= self.seed < 2**32, "from 0 to 2³² − 1"),
                "content_share": (0 <= self.content_share <= 0.75, "from 0 to 0.75"),
                "certainty_share": (0 <= self.certainty_share <= 0.25, "from 0 to 0.25"),
            },
        )

    def widths(self, content_share: float) -> tuple[int, int, int]:
        """Return how many bits name the class, say how certain it is, and are for content."""
        content = max(1, round(self.n_bits * content_share))
        certainty = round(self.n_bits * self.certainty_share)
        return self.n_bits - content - certainty, certainty, content
