"""Word vectors: knowledge about words that a corpus does not teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.errors import HummingbitError, counted
from hummingbit.training.data import TrainingData
from hummingbit.training.soft_labels import LinearMap
from hummingbit.training.teachers import hash_weights, load_sentence_transformer
from hummingbit.training.text_features import inverse_document_frequency

# Word vectors: knowledge about words that a corpus does not teach.
#
# A text is then the sum of the vectors of its words, and a classifier of these sums knows words
# that no labelled text has. The sum of linear maps is linear in the words, so an encoder holds only
# its maps from words to classes, and no word vector.


_PENALTY = 0.3
_ROWS = 4096


class WordVectorsError(HummingbitError, ValueError):
    """Word vectors cannot be used."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each of `words`; row i of `vectors`, ``float32[W, D]``, is that of word i.

    `fingerprint` is the SHA-256 of the file or of the weights that they come from.
    """

    name: str
    fingerprint: str
    words: Sequence[str]
    vectors: Floats

    def about(self) -> dict[str, Any]:
        """Return the description of the word vectors that an artifact records."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "words": len(self.words),
            "dimension": self.vectors.shape[1],
        }


@dataclass(frozen=True, eq=False)
class WordTable:
    """The vectors of the terms of features: row v, ``float32[V, D]``, is that of term v.

    The mean of all is subtracted, and a term without a vector has zeros. The first `n_learned`
    terms are those of the corpus.
    """

    vectors_VD: Floats
    n_learned: int

    def fit(self, rows: Any, targets: Floats) -> LinearMap:
        """Fit ridge regression of the `targets`, ``(N, C)``, on the sums of word vectors.

        `rows` X are weighted terms, a scipy matrix ``(N, V)``. With the table S, the map minimizes
        ‖X S W + b − Y‖² + 0.3 ‖W‖² and is returned as a map of terms, S W, ``(V, C)``.
        """
        n_rows, dimension = rows.shape[0], self.vectors_VD.shape[1]
        ones_and_sums = np.zeros((1 + dimension, 1 + dimension))
        right = np.zeros((1 + dimension, targets.shape[1]))
        for start in range(0, n_rows, _ROWS):
            part = slice(start, start + _ROWS)
            sums = np.asarray(rows[part] @ self.vectors_VD, dtype=np.float64)
            inputs = np.hstack([np.ones((len(sums), 1)), sums])
            ones_and_sums += inputs.T @ inputs
            right += inputs.T @ targets[part]
        # The bias has no penalty.
        penalty = np.diag([0.0, *[_PENALTY] * dimension])
        solution = np.linalg.solve(ones_and_sums + penalty, right)
        return LinearMap(self.vectors_VD @ solution[1:], solution[0])


def add_words(
    features: TextFeatures, words: WordVectors, n_texts: int, max_terms: int
) -> tuple[TextFeatures, WordTable]:
    """Return `features` with the words that have a vector as further terms, and the vectors.

    A word is a term if the analyzer makes a single term of it; of several words of one term, the
    first counts. The further terms, up to `max_terms` in all, come after those of the `n_texts`
    texts, in the order of their file. They have the idf of a term that one text has.

    Raises:
        WordVectorsError: if no term of the texts has a vector.
    """
    positions: dict[str, int] = {}
    for position, word in enumerate(words.words):
        terms = features.analyzer.terms(word)
        if len(terms) == 1:
            positions.setdefault(terms[0], position)
    learned = dict.fromkeys(features.vocabulary)
    if positions.keys().isdisjoint(learned):
        found = f"none of its {counted(len(words.words), 'word')} is a term of the documents"
        raise WordVectorsError(f"{words.name}: {found}")
    further = [term for term in positions if term not in learned][: max_terms - len(learned)]
    idf = inverse_document_frequency(np.ones(len(further), dtype=np.int64), n_texts)
    extended = replace(
        features,
        vocabulary=[*learned, *further],
        idf=None if features.idf is None else np.concatenate([features.idf, idf]),
    )
    known = [term in positions for term in extended.vocabulary]
    rows = [positions[term] for term in extended.vocabulary if term in positions]
    vectors = np.zeros((extended.dimension, words.vectors.shape[1]), dtype=np.float32)
    vectors[known] = words.vectors[rows] - words.vectors[rows].mean(axis=0)
    return extended, WordTable(vectors, len(learned))


def learned_columns(rows: Any, words: WordTable | None) -> Any:
    """Return the columns of the corpus's own terms: all of `rows`, or with `words` the first."""
    return rows if words is None else rows[:, : words.n_learned]


# Word vectors of a teacher that is a language model.


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
