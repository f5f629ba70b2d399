"""Word vectors of a teacher that is a language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from encoder.analyzers import Analyzer
from training.class_codes.word_vectors import WordVectors
from training.data import TrainingData
from training.distillation.teachers import hash_weights, load_sentence_transformer

# Tokenizers mark the start of a word by one of these.
_MARKS = "▁Ġ"


def encode_words(source: str, data: TrainingData, analyzer: str) -> WordVectors | None:
    """Return the vectors that a sentence-transformers model gives to words, each encoded alone.

    The words are those of its own vocabulary, then the other terms of the texts of `data`. A word
    counts if `analyzer` makes a single term of it. Returns None if no word does.

    Raises:
        TeacherError: if sentence-transformers is not installed, or there is no such model.
    """
    model = load_sentence_transformer(source)
    split_text = Analyzer.from_name(analyzer).terms
    numbers = model.tokenizer.get_vocab() if hasattr(model.tokenizer, "get_vocab") else {}
    tokens: list[str] = sorted(numbers, key=lambda token: int(numbers[token]))
    own = dict.fromkeys(token.lstrip(_MARKS) for token in tokens)
    terms = {term for text in data.inputs for term in split_text(str(text))}
    words = [
        word
        for word in [*own, *sorted(terms - own.keys())]
        if word.isalnum() and len(split_text(word)) == 1
    ]
    if not words:
        return None
    vectors = model.encode(words, convert_to_numpy=True, show_progress_bar=False)
    name = Path(source).name if Path(source).is_dir() else source
    return WordVectors(name, hash_weights(model), words, np.asarray(vectors, dtype=np.float32))
