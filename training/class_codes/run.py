"""Codes of class, certainty and content: ``hummingbit train class-codes``.

Classifiers learn from the labels and, if some documents have none, from their soft labels. A code
has three parts: the codeword of the predicted class, bits for the certainty of the prediction, and
bits of content that distinguish the documents of a class. Content is latent semantic analysis,
rotated to lose least when it is rounded to bits (ITQ), or learned by the inverse cloze task, by
which a few words of a text find it. A query has all certainty bits set, so among the documents of
its class the most certain come first. Precision at the head of the list is then about the accuracy
of the classifier on queries. A code of the class alone would mix in all documents whose class was
predicted wrongly. With a teacher's vectors of the documents, soft labels and content learn from
them: ``hummingbit distill --supervision``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from encoder.artifact import check_destination
from encoder.artifact_files.origins import TEACHER, WORD_VECTORS
from encoder.encoder import Encoder, Features, Inputs
from encoder.features import Floats, TextFeatures
from encoder.recipes import ICT, WORD_VECTOR_CLASSIFIERS, ClassCodeRecipe
from foundation.stages import begin_stage
from training.class_codes.choosing import Progress, choose
from training.class_codes.class_maps import ClassMaps
from training.class_codes.code_parts import ContentLayers, class_code
from training.class_codes.teaching import rows_of_soft_labels
from training.class_codes.word_vectors import (
    WordTable,
    WordVectors,
    add_words,
    learned_columns,
)
from training.data import Tags, TrainingData, TrainingDataError
from training.distillation.teachers import Teacher, check_directions
from training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    split,
    write_encoder,
)
from training.soft_labels.estimation import estimate_soft_labels
from training.text_features import MIN_DOCUMENTS


def train_class_codes(
    data: TrainingData,
    recipe: ClassCodeRecipe,
    out: Path,
    *,
    word_vectors: WordVectors | None = None,
    teacher: Teacher | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> Trained:
    """Train on `data` with `recipe` and write the encoder to `out`.

    With `word_vectors`, queries may be classified by them, too. With a `teacher`, its vectors of
    `data` give the soft labels (:func:`rows_of_soft_labels`) and, for texts, the content
    (:class:`ContentLayers`). `progress` is called with a line for each trial.

    Raises:
        TrainingDataError: if documents are matrices or vectors of several labels, if there are too
            few documents or labelled documents, if the query classifier of the recipe needs word
            vectors and there are none, or if there are `word_vectors` and documents are not texts.
        WordVectorsError: if no term of the documents has a vector.
        TeacherError: if a vector of the teacher is zero.
        ArtifactError: if `out` exists and `overwrite` is false.
    """
    check_destination(out, overwrite=overwrite)
    _check(data, recipe, word_vectors, teacher)
    parts = split(data, recipe)
    check_labels(data, parts, recipe.validation_share)
    documents = _read(data, parts, recipe, word_vectors, teacher)
    rows, tags, words = documents.rows, documents.tags, documents.words
    content = ContentLayers(
        documents.features, documents.inputs, rows, recipe, words=words, taught=documents.taught
    )
    begin_stage("estimating soft labels")
    learned = learned_columns(rows, words)
    if documents.taught is not None:
        learned = rows_of_soft_labels(learned, documents.taught, tags, recipe.seed)
    soft_labels = estimate_soft_labels(learned, tags, recipe.seed)
    choice = choose(
        rows, tags, soft_labels, recipe, content, words=words, learned=learned, progress=progress
    )
    begin_stage("fitting the class codes")
    known = np.asarray(tags.any(axis=1))
    maps = ClassMaps(
        rows, soft_labels, recipe.seed, words, known=known, label_weight=recipe.label_weight
    )
    *widths, n_content = recipe.widths(choice.content_share)
    encoder = Encoder(
        documents.features,
        [content.of(n_content)],
        np.zeros(recipe.n_bits, dtype=np.float32),
        {},
        class_code=class_code(maps, rows, choice.query_classifier, widths, recipe),
    )
    return write_encoder(
        out,
        encoder,
        data,
        parts,
        settings=asdict(recipe),
        about={
            "chosen": asdict(choice),
            **({WORD_VECTORS: word_vectors.about()} if word_vectors else {}),
            **({} if teacher is None else _about_teacher(teacher, encoder, data, parts)),
        },
        soft_labels=soft_labels,
        overwrite=overwrite,
    )


def _check(
    data: TrainingData,
    recipe: ClassCodeRecipe,
    word_vectors: WordVectors | None,
    teacher: Teacher | None,
) -> None:
    if data.are_matrices:
        raise TrainingDataError(
            "vector: documents are matrices; class-codes takes texts or vectors"
        )
    if data.is_multi_label and not data.is_text:
        problem = (
            "vectors have several labels; class-codes takes vectors of one label each, or texts"
        )
        raise TrainingDataError(f"label: {problem}")
    if word_vectors is None and recipe.query_classifier in WORD_VECTOR_CLASSIFIERS:
        problem = f"query_classifier: {recipe.query_classifier} needs word vectors"
        raise TrainingDataError(f"{problem}; give a file of them")
    if teacher is not None:
        check_directions(teacher, data)
        # It needs torch, and a missing library is an error before the work, not after it.
        import_module("training.distillation.teacher_agreement")


@dataclass(frozen=True, eq=False)
class _Documents:
    """The training documents: `inputs`, their `features` as `rows`, and their visible labels."""

    inputs: Inputs
    features: Features
    rows: Any
    tags: Tags
    words: WordTable | None
    taught: Floats | None


def _read(
    data: TrainingData,
    parts: Split,
    recipe: ClassCodeRecipe,
    word_vectors: WordVectors | None,
    teacher: Teacher | None,
) -> _Documents:
    by_words = recipe.content == ICT
    features = choose_features(
        data,
        parts.training,
        recipe.max_terms,
        analyzer=recipe.analyzer,
        max_words=recipe.max_words,
        # A word that only one text has is the best word to find it by.
        min_documents=1 if by_words else MIN_DOCUMENTS,
        summary_weight=recipe.summary_weight if by_words else 0.0,
    )
    inputs = data.take(parts.training)
    words = None
    if word_vectors is not None:
        features, words = _with_words(features, word_vectors, len(inputs), recipe.max_terms)
    return _Documents(
        inputs,
        features,
        features.transform(inputs),  # type: ignore[arg-type]  # each checks its own
        parts.visible_tags[parts.training],
        words,
        None if teacher is None else teacher.vectors[parts.training],
    )


def _about_teacher(
    teacher: Teacher, encoder: Encoder, data: TrainingData, parts: Split
) -> dict[str, Any]:
    from training.distillation.teacher_agreement import (  # noqa: PLC0415 - torch takes a second
        held_out_agreement,
    )

    agreement = held_out_agreement(encoder, data, teacher.vectors, parts)
    return {TEACHER: teacher.about(), "coherence": agreement}


def _with_words(
    features: Features, word_vectors: WordVectors, n_texts: int, max_terms: int
) -> tuple[Features, WordTable]:
    """Return features that have the words as further terms, and the vectors of all terms."""
    if not isinstance(features, TextFeatures):
        raise TrainingDataError("vector: word vectors are for texts, and documents are vectors")
    begin_stage("looking up word vectors")
    return add_words(features, word_vectors, n_texts, max_terms)
