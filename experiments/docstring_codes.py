"""Codes of a tenth of the labels of the docstrings, and everyday questions about these."""

from __future__ import annotations

from hummingbit.corpus.named_sets import load_qrels
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.recipes import WORDS_AND_CLASSES, ClassCodeRecipe
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.result import Evaluation
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.names import (
    ASYMMETRIC,
    BM25,
    HAMMING,
    HYBRID,
)

NAME = "docstrings"
RECIPE = ClassCodeRecipe(
    n_bits=64,
    label_fraction=0.1,
    query_classifier="both",
    # There are questions to measure with.
    validation_share=0.0,
    # With these 41 labels, 16 bits for the class suffice, and 44 remain for words.
    **{**WORDS_AND_CLASSES, "content_share": 0.6875},
)
# Ranks beyond the hundredth do not matter to anybody, and finding them takes time.
KNOWN_ITEMS = ("Success@10", "MRR@100")
METHODS = {
    HAMMING: "codes, Hamming",
    ASYMMETRIC: "codes, asymmetric",
    BM25: "words, BM25",
    HYBRID: "codes and words, hybrid",
}


def find_known_items(collection: CollectionBackend) -> dict[str, Evaluation]:
    """Search the collection with everyday questions whose answers are known, by each ranking."""
    questions = list(read_documents(f"{NAME}:queries"))
    settings = RelevanceSettings(qrels=load_qrels(NAME) or {})
    by_ranking = evaluate_rankings(collection, questions, METHODS, KNOWN_ITEMS, settings)
    return {METHODS[ranking]: evaluation for ranking, evaluation in by_ranking.items()}
