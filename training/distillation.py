"""Train an encoder from documents and a teacher's vectors, without labels: ``hummingbit distill``.

The student of the objective neighbours is one matrix from the words of a text to logits, as that of
``train ict``. It learns to find what its teacher finds, and texts by their words. Ours are this
combination of two losses and the start from the teacher's codes.

The student of perception coherence is a small network. The ranks of the Hamming distances of its
relaxed bits, tanh of the logits, are trained to follow those of the teacher's dissimilarities
(Nguyen et al. 2026). Ours are binary codes as the student's representation, with the relaxed
Hamming distance as its dissimilarity, and word dropout, which shows each document in many variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from hummingbit.encoder.artifact import TEACHER, check_destination
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.encoder.encoder import Encoder, Features
from hummingbit.encoder.recipes import NEIGHBOURS, ClozeRecipe, DistillationRecipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.evaluation.significance import bootstrap_intervals
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.batches import (
    SparseBatch,
    TrainingInputs,
    drop_words,
    touches_few_terms,
)
from hummingbit.training.data import (
    Rows,
    Tags,
    TrainingData,
    TrainingDataError,
    hold_out,
    mask_labels,
)
from hummingbit.training.layers import relaxed_hamming
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.loop import Schedule, fit_and_write
from hummingbit.training.networks import (
    EncoderNetwork,
    LinearEncoderNetwork,
    Shape,
    to_encoder,
)
from hummingbit.training.objectives.dissimilarity import cosine_dissimilarity
from hummingbit.training.objectives.neighbours import (
    neighbour_temperatures,
    stochastic_neighbour_loss,
)
from hummingbit.training.objectives.perception_coherence import (
    coherence_levels,
    perception_coherence_embedding_loss,
)
from hummingbit.training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    one_blas_thread,
)
from hummingbit.training.queries import ClozeTask
from hummingbit.training.soft_labels import fit_ridge
from hummingbit.training.teachers import Teacher, check_directions

# Of the values that were tried, those with the highest coherence on held-out documents of Snippets
# (hummingbit reproduce perception-coherence --part text-settings).
WORD_DROPOUT = 0.25
"""The mean share of a document's words that are left out of the input."""
BATCH_SIZE, LEARNING_RATE = 128, 3e-3
"""The documents in a batch, all compared with each other, and the step size of Adam."""
TEACHER_TEMPERATURE, STUDENT_TEMPERATURE = 0.1, 0.3
"""τ of the ranks in perception coherence; the paper's Table 6 has .3 as the best of the student."""
COHERENCE_WEIGHT = 5.0
"""λ, the weight of coherence beside the cross-entropy of labels (section 5.3 of the paper)."""

# The objective neighbours


PERPLEXITY = 4.0
"""About so many documents are near a text by the teacher."""
SCALE = 20.0
"""The factor γ of the scores, as in the inverse cloze loss."""
MIN_STEPS = 2000
"""The least number of batches; with few documents, more passes are made to reach it."""

# A text's temperature is found from so many nearest documents, of which the first ten may join a
# batch, two for each text.
_NEAREST, _NEAR, _DRAWN = 100, 10, 2
# The nearest are looked for among so many documents, drawn at random, if there are more.
_MOST_CANDIDATES = 20_000
_ROWS_AT_ONCE = 1_000


class NeighbourLoss:
    """Two losses for batches of the training texts; `model` holds the student's `network`.

    Each text of the batch, with words dropped, is a query, and so are a few words of one of its
    sentences. Both search the texts of the batch, as bits.

    - The first must find what is near the text by the teacher's cosines:
      :func:`stochastic_neighbour_loss`. A random text has few neighbours in a batch of random
      texts, so two of the teacher's ten nearest join the batch for each text. The temperature
      gives each text about four neighbours in the corpus. No text is its own neighbour.
    - The second must find the text that has the words: :func:`inverse_cloze_loss`.
    """

    def __init__(
        self, data: TrainingData, vectors: Floats, recipe: DistillationRecipe, training: Rows
    ) -> None:
        """Set up the loss for the documents `training`, whose teacher's vectors are `vectors`.

        Raises:
            TrainingDataError: if the documents are no texts.
        """
        if not data.is_text:
            found = "vector: the objective neighbours learns from the words of texts"
            raise TrainingDataError(f"{found}; use texts, or another objective")
        features = choose_features(
            data,
            training,
            recipe.max_terms,
            "count-idf",
            recipe.analyzer,
            min_documents=1,
            summary_weight=recipe.summary_weight,
        )
        assert isinstance(features, TextFeatures)  # noqa: S101 - because the inputs are texts
        texts = [str(text) for text in data.take(training)]
        self.features, self._recipe = features, recipe
        self._x: Any = features.add_summaries(features.transform(texts), texts)
        self._unit_NE = torch.from_numpy(unit_rows(vectors))
        cosines_NK, self._nearest_NK = nearest_documents(self._unit_NE, recipe.seed)
        self._temperatures_N1 = neighbour_temperatures(cosines_NK, PERPLEXITY)
        shared = ClozeRecipe().cloze_shared
        self._cloze = ClozeTask(features, texts, self._x, seed=recipe.seed, shared=shared)
        self.network = self._build_network(texts, vectors)
        self.model = nn.ModuleDict({"encoder": self.network})

    def _build_network(self, texts: list[str], vectors: Floats) -> LinearEncoderNetwork:
        recipe = self._recipe
        torch.manual_seed(recipe.seed)
        is_sparse = touches_few_terms(self.features, texts, 2 * BATCH_SIZE)
        network = LinearEncoderNetwork(
            Shape.of(self.features, 0, recipe.n_bits, sparse_gradient=is_sparse)
        )
        begin_stage("fitting the teacher's codes")
        self._cloze.start(network, codes_of_terms(self._x, vectors, recipe.n_bits, recipe.seed))
        return network

    def schedule(self) -> Schedule:
        """Return the schedule: the recipe's, with at least :data:`MIN_STEPS`."""
        recipe, n = self._recipe, self._x.shape[0]
        batches = max(1, -(-n // BATCH_SIZE))
        epochs = max(recipe.epochs, -(-MIN_STEPS // batches))
        return Schedule(epochs, BATCH_SIZE, LEARNING_RATE, recipe.seed, decay=True)

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002 - of the protocol
    ) -> Mapping[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`."""
        network = self.network
        searched = self._add_nearest(rows, generator)
        logits_MB = network(self._drop_words(searched, generator))[1]
        query_logits_NB = network(self._drop_words(rows, generator))[1]
        cosines_NM = self._unit_NE[torch.from_numpy(rows)] @ self._unit_NE[searched].T
        return {
            "neighbour_loss": stochastic_neighbour_loss(
                query_logits_NB,
                logits_MB,
                cosines_NM,
                self._temperatures_N1[torch.from_numpy(rows)],
                torch.tensor(SCALE),
                # The texts of the batch come first among those that are searched.
                left_out=torch.eye(*cosines_NM.shape, dtype=torch.bool),
            ),
            "cloze_loss": self._cloze.loss(network, logits_MB[: len(rows)], rows, generator),
        }

    def _add_nearest(self, rows: Rows, generator: torch.Generator) -> Rows:
        """Return `rows`, and after them some of the texts nearest to each, without repeats."""
        near_NK = self._nearest_NK[rows, :_NEAR]
        chosen = torch.randint(near_NK.shape[1], (len(rows), _DRAWN), generator=generator)
        drawn = np.take_along_axis(near_NK, chosen.numpy(), axis=1)
        return np.concatenate([rows, np.setdiff1d(drawn, rows)])

    def _drop_words(self, rows: Rows, generator: torch.Generator) -> SparseBatch:
        batch = SparseBatch.of_rows(self._x, rows)
        return drop_words(batch, WORD_DROPOUT, generator)


def nearest_documents(unit_NE: Tensor, seed: int) -> tuple[Tensor, npt.NDArray[np.int64]]:
    """Return the largest cosines of each row with other rows and their numbers, both ``(N, K)``.

    K is 100, or the number of other rows if there are fewer. If there are more than 20,000 rows,
    the others are among 20,000 that are drawn at random.
    """
    begin_stage("finding the teacher's nearest documents")
    n = len(unit_NE)
    candidates = np.arange(n)
    if n > _MOST_CANDIDATES:
        drawn = np.random.default_rng(seed).choice(n, _MOST_CANDIDATES, replace=False)
        candidates = np.sort(drawn)
    candidate_numbers = torch.from_numpy(candidates)
    candidates_CE = unit_NE[candidate_numbers]
    cosines, numbers = [], []
    for start in range(0, n, _ROWS_AT_ONCE):
        cosines_RC = unit_NE[start : start + _ROWS_AT_ONCE] @ candidates_CE.T
        own_RC = torch.arange(start, start + len(cosines_RC))[:, None] == candidate_numbers
        cosines_RC[own_RC] = -torch.inf
        nearest = cosines_RC.topk(min(_NEAREST, len(candidates) - 1), dim=1)
        cosines.append(nearest.values)
        numbers.append(candidate_numbers[nearest.indices])
    return torch.cat(cosines), torch.cat(numbers).numpy()


def codes_of_terms(
    rows: Any, vectors: Floats, n_bits: int, seed: int
) -> tuple[Floats, Floats] | None:
    """Return the weights ``(V, B)`` and thresholds ``(B,)`` of ITQ codes regressed from terms.

    The codes are those of the `vectors`, before they are rounded to bits. The regression is ridge
    regression from the weighted terms `rows`, a scipy matrix ``(N, V)``. Its results have a mean
    square of 1. Returns None if there are too few vectors, or numbers in them, for the bits.
    """
    if min(vectors.shape) <= n_bits or rows.shape[0] <= n_bits:
        return None
    weight, thresholds = fit_itq(vectors, n_bits, seed)
    ridge = fit_ridge(rows, vectors @ weight - thresholds)
    size = float(np.sqrt(np.square(ridge(rows)).mean())) or 1.0
    return (
        np.ascontiguousarray(ridge.weight / size, dtype=np.float32),
        np.asarray(-ridge.bias / size, dtype=np.float32),
    )


# The agreement of a student with its teacher


COMPARED_NEIGHBOURS, NEAREST = 100, 10
SHOWN_LOWEST = 10
MAX_QUERIES = 1000
MAX_DOCUMENTS = 10_000


@dataclass(frozen=True)
class Agreement:
    """How far a student and a teacher agree, from 0 to 1.

    `coherence` is the mean coherence level of the queries, with half of the ties counted, since
    Hamming distances have few values
    (:func:`hummingbit.training.objectives.perception_coherence.coherence_levels`). `neighbours` is
    the share of the teacher's 100 nearest documents among the student's 100, and `nearest` that of
    its ten nearest among the student's 100, with ties ordered by row. `interval` is the bootstrap
    interval of `coherence` over the queries, and `lowest` has the rows of the queries with the
    lowest levels, and these.
    """

    coherence: float
    interval: tuple[float, float]
    lowest: tuple[tuple[int, float], ...]
    neighbours: float
    nearest: float
    queries: int
    documents: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {
            "level": self.coherence,
            "interval": list(self.interval),
            "neighbours": self.neighbours,
            "nearest": self.nearest,
            "queries": self.queries,
            "documents": self.documents,
        }


def measure_agreement(
    query_codes: Codes,
    database_codes: Codes,
    query_vectors: Floats,
    database_vectors: Floats,
) -> Agreement:
    """Compare how codes and a teacher's vectors rank a database for each query.

    Codes rank by Hamming distance, and vectors by cosine dissimilarity. At most 1,000 queries and
    10,000 documents are used, drawn at random.

    Raises:
        ValueError: if there is no query or fewer than two documents, or a vector is zero or
            contains NaN.
    """
    if not len(query_codes) or len(database_codes) < 2:
        found = f"{len(query_codes)} queries and {len(database_codes)} documents"
        raise ValueError(f"there are {found}; at least one query and two documents are needed")
    rng = np.random.default_rng(0)
    queries = _sample(len(query_codes), MAX_QUERIES, rng)
    documents = _sample(len(database_codes), MAX_DOCUMENTS, rng)
    signs_QB, signs_NB = (
        torch.from_numpy(unpack_codes(codes).astype(np.float32) * 2 - 1)
        for codes in (query_codes[queries], database_codes[documents])
    )
    student_QN = (signs_QB.shape[1] - signs_QB @ signs_NB.T) / 2
    teacher_QN = cosine_dissimilarity(
        torch.from_numpy(query_vectors[queries]), torch.from_numpy(database_vectors[documents])
    )
    levels = coherence_levels(student_QN, teacher_QN, ties="middle")
    found_QK, expected_QK = (
        d_QN.sort(dim=1, stable=True).indices[:, :COMPARED_NEIGHBOURS]
        for d_QN in (student_QN, teacher_QN)
    )
    interval = bootstrap_intervals({"level": levels.numpy()})["level"]
    order = np.argsort(levels.numpy(), kind="stable")[:SHOWN_LOWEST]
    return Agreement(
        float(levels.mean()),
        (interval.low, interval.high),
        tuple((int(queries[row]), float(levels[row])) for row in order),
        _overlap(found_QK, expected_QK),
        _overlap(found_QK, expected_QK[:, :NEAREST]),
        len(queries),
        len(documents),
    )


def held_out_agreement(
    encoder: Encoder, data: TrainingData, vectors: Floats, parts: Split
) -> dict[str, Any] | None:
    """Return how far codes and `vectors` agree on the held-out documents; None if there are none.

    The held-out documents are the queries, and they rank the training documents; see
    :func:`measure_agreement`.
    """
    if not len(parts.validation):
        return None
    agreement = measure_agreement(
        encoder.encode_uncorrected_queries(data.take(parts.validation)),
        encoder.encode(data.take(parts.training)),
        vectors[parts.validation],
        vectors[parts.training],
    )
    names = [data.ids[row] for row in parts.validation]
    lowest = [{"id": names[row], "level": level} for row, level in agreement.lowest]
    return {**agreement.to_dict(), "lowest": lowest}


def _sample(count: int, limit: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.arange(count) if count <= limit else np.sort(rng.permutation(count)[:limit])


def _overlap(found_QK: Tensor, expected_QK: Tensor) -> float:
    """Return the share of the expected documents that were found, a mean over queries."""
    rows = zip(found_QK.numpy(), expected_QK.numpy(), strict=True)
    return float(np.mean([len(np.intersect1d(x, y)) / len(y) for x, y in rows]))


# The run, and perception coherence


@one_blas_thread()
def distill(
    data: TrainingData,
    teacher: Teacher,
    recipe: DistillationRecipe,
    out: Path,
    *,
    loss_of: type[CoherenceLoss] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Trained:
    """Train a student of `teacher` on `data` with `recipe` and write its encoder to `out`.

    A share of the documents, labelled or not, is held out. The coherence level of the codes on them
    is saved in the artifact. An interrupted run resumes from the checkpoint beside `out`. `loss_of`
    replaces the loss of other objectives than neighbours: experiments compare others with it.

    Raises:
        TeacherError: if a vector of the teacher is zero.
        TrainingDataError: if the documents are too few.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_destination(out, overwrite=overwrite)
    check_directions(teacher, data)
    parts = split_documents(data, recipe)
    if recipe.label_fraction:
        check_labels(data, parts, 0.0)
    labelled = parts.validation[data.tags[parts.validation].any(axis=1)]
    loss: NeighbourLoss | CoherenceLoss
    if recipe.objective == NEIGHBOURS:
        loss = NeighbourLoss(data, teacher.vectors[parts.training], recipe, parts.training)
    else:
        features = choose_features(data, parts.training, recipe.max_terms, analyzer=recipe.analyzer)
        loss = (loss_of or CoherenceLoss)(data, teacher, recipe, features, parts)
    return fit_and_write(
        out,
        loss.model,
        loss,
        rows=len(parts.training),
        schedule=loss.schedule(),
        data=data,
        # The evaluation needs labels.
        parts=replace(parts, validation=labelled),
        recipe=recipe,
        encoder_of=lambda: to_encoder(loss.network, loss.features),
        run={TEACHER: teacher.about()},
        about=lambda encoder: {
            TEACHER: teacher.about(),
            "coherence": held_out_agreement(encoder, data, teacher.vectors, parts),
        },
        overwrite=overwrite,
        progress=progress,
    )


def split_documents(data: TrainingData, recipe: DistillationRecipe) -> Split:
    """Hold out a share of all documents, and show the labels of a share of the others, if any.

    If every document is labelled, it holds out what :func:`hummingbit.training.pipeline.split`
    does.

    Raises:
        TrainingDataError: if fewer than two documents are left to train on.
    """
    rng = np.random.default_rng(recipe.seed)
    all_documents = np.ones((len(data), 1), dtype=np.bool_)
    training, validation = hold_out(all_documents, recipe.validation_share, rng)
    if len(training) < 2:
        found = f"{len(training)} of {len(data)} documents are left to train on"
        raise TrainingDataError(f"{found}; a student compares documents and needs at least 2")
    if not recipe.label_fraction:
        return Split(training, validation, np.zeros_like(data.tags))
    tags = data.tags.copy()
    tags[validation] = False
    return Split(training, validation, mask_labels(tags, recipe.label_fraction, rng))


class CoherenceLoss:
    """The loss of perception coherence for batches of the training documents.

    `model` has the student's `network`, and with labels a class head, which is dropped after
    training.
    """

    word_dropout = WORD_DROPOUT

    def __init__(
        self,
        data: TrainingData,
        teacher: Teacher,
        recipe: DistillationRecipe,
        features: Features,
        parts: Split,
    ) -> None:
        self._recipe, self.features = recipe, features
        self._inputs = TrainingInputs(features, data.take(parts.training))
        self._teacher = torch.from_numpy(teacher.vectors[parts.training])
        torch.manual_seed(recipe.seed)
        losses = self.build_losses(self._teacher.shape[1], len(parts.training))
        if recipe.label_fraction:
            tags = parts.visible_tags[parts.training]
            self._tags = torch.from_numpy(tags).float()
            self._teacher_logits = torch.from_numpy(
                logits_of_teacher(teacher.vectors[parts.training], tags)
            )
            losses["classes"] = nn.Linear(recipe.n_bits, tags.shape[1])
        torch.manual_seed(recipe.seed)
        self.network = EncoderNetwork(Shape.of(features, recipe.hidden, recipe.n_bits))
        self.losses = nn.ModuleDict(losses)
        self.model = nn.ModuleDict({"encoder": self.network, "losses": self.losses})

    def build_losses(self, teacher_dim: int, n_examples: int) -> dict[str, nn.Module]:  # noqa: ARG002 - other losses need them
        """Return modules that are trained with the student, by name: none."""
        return {}

    def schedule(self) -> Schedule:
        """Return the schedule of the recipe."""
        return Schedule(self._recipe.epochs, BATCH_SIZE, LEARNING_RATE, self._recipe.seed)

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002
    ) -> Mapping[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`."""
        x, _ = self._inputs.batch(rows, self.word_dropout, generator)
        logits_NB, numbers = self.network(x)[1], torch.from_numpy(rows)
        terms = self.transfer_terms(logits_NB, self._teacher[numbers], generator)
        if self._recipe.label_fraction:
            bits_NB = torch.tanh(logits_NB)
            terms = self._with_labels(terms["transfer_loss"], bits_NB, numbers)
        return terms

    def transfer_terms(
        self,
        logits_NB: Tensor,
        teacher_NE: Tensor,
        generator: torch.Generator,  # noqa: ARG002 - other losses draw
    ) -> dict[str, Tensor]:
        """Return the terms of the loss without labels, of the student's logits."""
        loss = perception_coherence_embedding_loss(
            torch.tanh(logits_NB),
            teacher_NE,
            student_dissimilarity=relaxed_hamming,
            student_temperature=STUDENT_TEMPERATURE,
            teacher_temperature=TEACHER_TEMPERATURE,
        )
        return {"transfer_loss": loss}

    def _with_labels(self, coherence: Tensor, bits_NB: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """Return the terms of cross-entropy + λ · coherence on two layers, the codes and logits.

        Source: Nguyen et al., "Feature Representation Transferring to Lightweight Models via
        Perception Coherence" (2026), section 5.3 and appendix E.3. The penultimate layer of the
        student is the code.
        """
        logits_NC, tags_NC = self.losses["classes"](bits_NB), self._tags[rows]
        labelled = tags_NC.any(dim=1)
        class_loss = 0 * logits_NC.sum()
        if labelled.any():
            # Each label of a document has the same share of the probability.
            targets = tags_NC[labelled] / tags_NC[labelled].sum(dim=1, keepdim=True)
            class_loss = functional.cross_entropy(logits_NC[labelled], targets)
        of_logits = perception_coherence_embedding_loss(
            logits_NC,
            self._teacher_logits[rows],
            student_temperature=STUDENT_TEMPERATURE,
            teacher_temperature=TEACHER_TEMPERATURE,
        )
        return {
            "class_loss": class_loss,
            "transfer_loss": COHERENCE_WEIGHT * coherence,
            "logit_transfer_loss": COHERENCE_WEIGHT * of_logits,
        }


def logits_of_teacher(vectors: Floats, tags: Tags) -> Floats:
    """Return the class scores of a teacher's vectors, ``float32[N, C]``.

    A teacher that is a matrix of vectors has no logits. Its scores are those of ridge regression
    from the vectors to the visible `tags`, 1 or −1, ``bool[N, C]``.
    """
    labelled = tags.any(axis=1)
    rows = sparse.csr_array(vectors.astype(np.float64))
    ridge = fit_ridge(rows[labelled], np.where(tags[labelled], 1.0, -1.0))
    return np.asarray(ridge(rows), dtype=np.float32)
