"""``hummingbit train judged``: an encoder that learns from judged queries.

Source: Yamada, Asai and Hajishirzi, "Efficient Passage Retrieval with Hashing for Open-domain
Question Answering" (2021), who learn codes from questions and their passages, for both rankings of
codes, with passages that another ranking found in vain. Ours are the loss
(:func:`hummingbit.training.objectives.neighbours.ranking_loss`), the start from an encoder, hard
negatives by the codes themselves, found anew as they change, and the stop by held-out queries.

Only the last layer learns: the language model, the features and other layers stay as they are, and
so do the bits of a class code. So a code stays one linear map of what the encoder reads, and the
documents are read once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from hummingbit.corpus.qrels import Qrels
from hummingbit.encoder.artifact import (
    GOLDEN_INPUTS,
    LABELLED_IDS,
    LEARNED,
    METRICS,
    check_destination,
    load_encoder,
    read_classifier,
    read_labelled_ids,
    write_artifact,
)
from hummingbit.encoder.class_code import JointRows
from hummingbit.encoder.classifier import CLASSIFIER, classifier_bytes
from hummingbit.encoder.encoder import Encoder, LanguageModel, Layer, hash_contents
from hummingbit.encoder.recipes import JudgementRecipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.evaluation.relevance import find_encoded_ids, relevance_by_qrels
from hummingbit.evaluation.result import PerQuery, means_of
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage, count_in_stage
from hummingbit.training.batches import SparseBatch
from hummingbit.training.data import Rows, TrainingData, TrainingDataError
from hummingbit.training.layers import each_on_one_core, straight_through_signs, weighted_sum
from hummingbit.training.objectives.neighbours import ranking_loss
from hummingbit.training.optimizers import AnyOptimizer, SparseAdam
from hummingbit.training.pipeline import one_blas_thread

METRIC = "nDCG@10"
LEAST_ERRORS = 2.0
"""The best of several steps is ahead by chance, the more so by few held-out queries."""
LEAST_QUERIES = 10
"""Fewer judged queries are no ground for a change."""
MOST_DOCUMENTS = 20_000
"""Judged documents, and others drawn at random, among which training searches."""

# Of a query, so many relevant documents join a batch, and so many random ones join it for all.
_RELEVANT, _RANDOM = 4, 1_024
# Hard negatives are drawn from so many documents that the codes find first.
_FOUND = 200
_STEPS_BETWEEN_CHECKS, _PATIENCE = 20, 8
_WARM_UP = 30
_FIRST_SCALE, _SCALE_STEP = 16.0, 0.02
# Held-out queries beyond these say little more, and each check ranks for all.
_MOST_HELD_OUT = 500
_BATCH = 512


@dataclass(frozen=True)
class Taught:
    """The written encoder, and nDCG@10 of the held-out queries before and after, by ranking.

    Values are tie-averaged. `step` is the batch after which the weights were kept; 0 if none was
    significantly better than the start, so that the encoder has the codes of the start.
    """

    encoder: Encoder
    before: Mapping[str, float]
    after: Mapping[str, float]
    step: int
    queries: int
    held_out: int
    notes: tuple[str, ...] = ()


@one_blas_thread()
def train_judged(
    start: Path,
    data: TrainingData,
    queries: TrainingData,
    qrels: Qrels,
    *,
    recipe: JudgementRecipe,
    out: Path,
    vectors: Floats | None = None,
    overwrite: bool = False,
) -> Taught:
    """Teach the encoder in the folder `start` with judged queries, and write another to `out`.

    A document of `data` is relevant to a query by its grade, if that is above 0; all others are
    not, judged or not. Queries without a relevant document teach nothing. `vectors` are those of a
    language model for the documents, ``float32[N, D]``; without them, it reads the documents. The
    weight of codes in the hybrid ranking stays that of the start.

    Raises:
        ArtifactError: if the start cannot be read, or `out` exists and `overwrite` is false.
        InputError: if the encoder does not take the documents or the queries.
        EvaluationError: if no judgement names a query and a document, or no grade is above 0.
        TrainingDataError: if the encoder has a reconstruction, fewer than ten queries have a
            relevant document, or `vectors` are not of the encoder's language model.
    """
    check_destination(out, overwrite=overwrite)
    encoder = load_encoder(start)
    if encoder.reconstruction is not None:
        problem = "bits of documents are no linear map; train --head sne or itq, and learn from it"
        raise TrainingDataError(f"encoder: has the head reconstruction, whose {problem}")
    _, notes = relevance_by_qrels(qrels, queries.ids, data.ids)
    grades = grades_of(qrels, queries.ids, data.ids)
    judged = np.flatnonzero(np.diff(grades.indptr))
    if len(judged) < LEAST_QUERIES:
        found = f"{counted(len(judged), 'query', 'queries')} with a relevant document"
        raise TrainingDataError(f"judgements: there are {found}; at least {LEAST_QUERIES} must be")
    if vectors is not None:
        _check_vectors(vectors, encoder, data)
    rng = np.random.default_rng(recipe.seed)
    documents = _candidates(grades, rng)
    begin_stage(f"reading {counted(len(documents), 'document')}")
    inputs = data.take(documents)
    searched = _read_documents(encoder, inputs, None if vectors is None else vectors[documents])
    begin_stage(f"reading {counted(len(judged), 'query', 'queries')}")
    asked = _read_queries(encoder, queries.take(judged))
    learned = learn(encoder, asked, searched, grades[judged][:, documents], recipe=recipe, rng=rng)
    judged_record = json.dumps([queries.sha256, qrels], sort_keys=True)
    about = {
        "start": encoder.fingerprint,
        "recipe": asdict(recipe),
        "queries": len(judged),
        "held_out": len(learned.held_out),
        "pairs": int(grades.nnz),
        "sha256": hashlib.sha256(judged_record.encode()).hexdigest(),
        "step": learned.step,
        "before": learned.before,
        "after": learned.after,
    }
    taught = replace(
        encoder,
        layers=learned.layers(encoder),
        thresholds=np.concatenate([encoder.thresholds[: -len(learned.cut)], learned.cut]),
        # Other figures of the start would not be those of these codes.
        metadata={**encoder.metadata, "validation": {}, "coherence": None, "judgements": about},
    )
    begin_stage("writing the encoder")
    margins = np.abs(_values(learned.weight, learned.cut, searched.rows)).min(axis=1)
    examples = np.argsort(-margins, kind="stable")[:GOLDEN_INPUTS]
    classifier = read_classifier(start, encoder)
    hashes = np.union1d(encoder.learned.hashes, hash_contents(queries.take(judged)))
    written = write_artifact(
        out,
        taught,
        data.take(documents[examples]),
        extra_files={
            **({} if classifier is None else {CLASSIFIER: classifier_bytes(classifier)}),
            LABELLED_IDS: json.dumps(read_labelled_ids(start, encoder), ensure_ascii=False) + "\n",
            LEARNED: hashes.astype("<u8").tobytes(),
            METRICS: json.dumps({"validation": {}, "epochs": learned.history}, indent=2) + "\n",
        },
        overwrite=overwrite,
    )
    return Taught(
        written,
        learned.before,
        learned.after,
        learned.step,
        len(judged),
        len(learned.held_out),
        tuple(notes),
    )


# What is judged, and what the last layer reads


@dataclass(frozen=True, eq=False)
class Read:
    """What the last layer reads of M texts or vectors, and the values of the bits of a class code.

    `rows` is a matrix ``(M, F)``, sparse for texts where there is one layer. `class_values`,
    ``float32[M, K]``, are the weights of a query's bits, and −1 or 1 for those of a document.
    """

    rows: Any
    class_values: Floats


def grades_of(qrels: Qrels, query_ids: Sequence[str], document_ids: Sequence[str]) -> Any:
    """Return the grades above 0, a CSR matrix ``(Q, N)``."""
    row_of = {name: row for row, name in enumerate(query_ids)}
    column_of = {name: column for column, name in enumerate(document_ids)}
    pairs = [
        (row_of[query], column_of[document], grade)
        for query, graded in find_encoded_ids(qrels, row_of, column_of).items()
        for document, grade in graded.items()
        if grade > 0 and query in row_of and document in column_of
    ]
    rows, columns, values = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    shape = (len(query_ids), len(document_ids))
    return sparse.csr_array((values.astype(np.float32), (rows, columns)), shape=shape)


def _candidates(grades: Any, rng: np.random.Generator) -> Rows:
    """Return the rows of the relevant documents and of others, together :data:`MOST_DOCUMENTS`."""
    relevant = np.unique(grades.indices)
    others = np.setdiff1d(np.arange(grades.shape[1]), relevant)
    n_others = max(_RANDOM, MOST_DOCUMENTS - len(relevant))
    return np.sort(np.concatenate([relevant, rng.permutation(others)[:n_others]])).astype(np.int64)


def _check_vectors(vectors: Floats, encoder: Encoder, data: TrainingData) -> None:
    if not isinstance(encoder.features, LanguageModel):
        problem = "the encoder has no language model, and reads the documents in no time"
        raise TrainingDataError(f"vectors: {problem}")
    expected = (len(data), encoder.features.dimension)
    if vectors.shape != expected:
        found = f"are {vectors.shape[0]:,} of {vectors.shape[1]:,} numbers"
        raise TrainingDataError(
            f"vectors: {found}; they must be {expected[0]:,} of {expected[1]:,}"
        )


def _read_documents(encoder: Encoder, inputs: Any, vectors: Floats | None) -> Read:
    parts, features = [], encoder.features
    with count_in_stage("reading the documents", len(inputs)) as count:
        for start in range(0, len(inputs), _BATCH):
            some = inputs[start : start + _BATCH]
            rows: Any = features.transform(some) if vectors is None else vectors[start:][:_BATCH]
            class_values = _no_values(some)
            if encoder.class_code is not None:
                of_classes = encoder.class_rows(some, vectors=rows)
                class_values = _signs(encoder.class_code.logits(of_classes))
            if isinstance(features, TextFeatures):
                rows = features.add_summaries(rows, some)
            parts.append(Read(_hidden(encoder, rows), class_values))
            count(len(some))
    return _joined(parts)


def _read_queries(encoder: Encoder, inputs: Any) -> Read:
    parts, features = [], encoder.features
    for start in range(0, len(inputs), _BATCH):
        some = inputs[start : start + _BATCH]
        if isinstance(features, TextFeatures | LanguageModel):
            rows: Any = features.transform_queries(some)[0]
        else:
            rows = features.transform(some)
        class_values = _no_values(some)
        if encoder.class_code is not None:
            of_classes = rows
            if encoder.words is not None:
                of_classes = JointRows(rows, encoder.words.transform_queries(some)[0])
            class_values = encoder.class_code.query_weights(of_classes)
        parts.append(Read(_hidden(encoder, rows), class_values))
    return _joined(parts)


def _no_values(inputs: Any) -> Floats:
    return np.empty((len(inputs), 0), dtype=np.float32)


def _hidden(encoder: Encoder, rows: Any) -> Any:
    for layer in encoder.layers[:-1]:
        rows = layer(rows)
    return rows


def _joined(parts: list[Read]) -> Read:
    stack = sparse.vstack if sparse.issparse(parts[0].rows) else np.vstack
    rows: Any = stack([part.rows for part in parts])
    if sparse.issparse(rows):
        rows = rows.tocsr()
    return Read(rows, np.vstack([part.class_values for part in parts]).astype(np.float32))


# Learning


@dataclass(frozen=True, eq=False)
class LastLayer:
    """The last layer that was learned: logit − threshold = x W − c, and how its queries did.

    `weight` is W ``(F, B)`` and `cut` c ``(B,)``. `before`, `after`, `step` are those of
    :class:`Taught`. `history` has the values of each check.
    """

    weight: Floats
    cut: Floats
    held_out: Rows
    before: dict[str, float]
    after: dict[str, float]
    step: int
    history: list[dict[str, float]]

    def layers(self, encoder: Encoder) -> list[Layer]:
        """Return the layers of `encoder` with this one as the last."""
        return [*encoder.layers[:-1], Layer(self.weight, np.zeros_like(self.cut), "identity")]


def learn(
    encoder: Encoder,
    queries: Read,
    documents: Read,
    grades_QN: Any,
    *,
    recipe: JudgementRecipe,
    rng: np.random.Generator,
) -> LastLayer:
    """Return the last layer that finds the relevant documents of `grades_QN`, a CSR matrix.

    Every query has a relevant document. A share of the queries is held out. What is kept is the
    layer by which their mean nDCG@10 by both rankings is highest, and training ends once that has
    not risen for 160 steps. If that is not surely above the start, the start is kept.
    """
    n_held_out = max(1, round(recipe.held_out * grades_QN.shape[0]))
    shuffled = rng.permutation(grades_QN.shape[0])
    held_out, training = np.sort(shuffled[:n_held_out]), shuffled[n_held_out:]
    weight, cut = _last(encoder)
    task = _Task(queries, documents, grades_QN, (weight, cut))
    check = _HeldOut(queries, documents, grades_QN, held_out[:_MOST_HELD_OUT])
    optimizers = task.optimizers(recipe)
    at_first = check.values(weight, cut)
    best_values, before = at_first, means_of(at_first)
    start = best = LastLayer(weight, cut, held_out, before, before, 0, [before])
    history = start.history
    title = f"learning from {counted(len(training), 'query', 'queries')}"
    with each_on_one_core(second_thread=False), count_in_stage(title, recipe.steps) as count:
        for step in range(1, recipe.steps + 1):
            if (step - 1) % _STEPS_BETWEEN_CHECKS == 0:
                task.encode_documents()
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = group["initial"] * min(1.0, step / _WARM_UP)
                optimizer.zero_grad()
            chosen = rng.permutation(training)[: recipe.batch_size]
            task.loss(chosen, recipe.hard_negatives, rng).backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
            count(1)
            if step % _STEPS_BETWEEN_CHECKS and step < recipe.steps:
                continue
            weight, cut = task.layer()
            values = check.values(weight, cut)
            after = means_of(values)
            history.append(after)
            if sum(after.values()) > sum(best.after.values()):
                best_values = values
                best = LastLayer(weight, cut, held_out, before, after, step, history)
            elif step - best.step >= _PATIENCE * _STEPS_BETWEEN_CHECKS:
                break
    return best if _is_surely_better(best_values, at_first) else start


def _is_surely_better(values: Mapping[str, PerQuery], start: Mapping[str, PerQuery]) -> bool:
    """Return whether queries gained more, over both rankings, than chance would give the best step.

    The mean gain must exceed :data:`LEAST_ERRORS` of its standard errors.
    """
    gains = np.mean([values[ranking] - start[ranking] for ranking in start], axis=0)
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return bool(gains.mean() > LEAST_ERRORS * error)


def _last(encoder: Encoder) -> tuple[Floats, Floats]:
    """Return W and c of the last layer, by which logit − threshold = x W − c."""
    if not encoder.layers:
        return np.eye(encoder.n_bits, dtype=np.float32), encoder.thresholds
    last = encoder.layers[-1]
    thresholds = encoder.thresholds[encoder.n_bits - len(last.bias) :]
    return last.weight.astype(np.float32), (thresholds - last.bias).astype(np.float32)


def _values(weight: Floats, cut: Floats, rows: Any) -> Floats:
    return np.asarray(rows @ weight, dtype=np.float32) - cut


def _signs(values: Floats) -> Floats:
    return np.where(values > 0, np.float32(1), np.float32(-1))


class _Task:
    """The last layer as it learns, with logits of the size 1, the root of their mean square."""

    def __init__(
        self,
        queries: Read,
        documents: Read,
        grades_QN: Any,
        start: tuple[Floats, Floats],
    ) -> None:
        self._queries, self._documents, self._grades = queries, documents, grades_QN
        weight, cut = start
        self._size = float(np.sqrt(np.square(_values(*start, documents.rows)).mean())) or 1.0
        self._weight = nn.Parameter(torch.from_numpy(np.ascontiguousarray(weight / self._size)))
        self._cut = nn.Parameter(torch.from_numpy(cut / self._size))
        self._log_scale = nn.Parameter(torch.tensor(float(np.log(_FIRST_SCALE))))
        self._is_sparse = sparse.issparse(documents.rows)
        self._bits: Floats = np.empty((0, 0), dtype=np.float32)

    def optimizers(self, recipe: JudgementRecipe) -> list[AnyOptimizer]:
        """Return the optimizers, whose groups have their step size as `initial`."""
        groups: list[dict[str, Any]] = [
            {"params": [self._log_scale], "initial": _SCALE_STEP},
            {"params": [self._cut], "initial": recipe.learning_rate},
        ]
        of_weight = {"params": [self._weight], "initial": recipe.learning_rate}
        if not self._is_sparse:
            return [torch.optim.Adam([*groups, of_weight])]
        sparse_adam = SparseAdam([self._weight], lr=recipe.learning_rate)
        sparse_adam.param_groups[0]["initial"] = recipe.learning_rate
        return [torch.optim.Adam(groups), sparse_adam]

    def layer(self) -> tuple[Floats, Floats]:
        """Return W and c with logits of the size that those of the start have."""
        size = np.float32(self._size)
        return size * self._weight.detach().numpy(), size * self._cut.detach().numpy()

    def encode_documents(self) -> None:
        """Encode all documents, among which hard negatives are found until the next call."""
        weight, cut = self._weight.detach().numpy(), self._cut.detach().numpy()
        content = _signs(_values(weight, cut, self._documents.rows))
        self._bits = np.hstack([self._documents.class_values, content])

    def loss(self, rows: Rows, n_hard: int, rng: np.random.Generator) -> Tensor:
        """Return the loss of the queries `rows` among documents of theirs and random ones."""
        query_logits = self._logits(self._queries, rows)
        # The bits of a class code weigh as much beside logits of size 1 as beside the start's.
        class_weights = torch.from_numpy(self._queries.class_values[rows] / np.float32(self._size))
        query_logits = torch.hstack([class_weights, query_logits])
        columns = self._draw(rows, query_logits.detach().numpy(), n_hard, rng)
        bits = straight_through_signs(self._logits(self._documents, columns))
        class_bits = torch.from_numpy(self._documents.class_values[columns])
        grades = torch.from_numpy(self._grades[rows][:, columns].toarray())
        targets = grades / grades.sum(dim=1, keepdim=True)
        bits = torch.hstack([class_bits, bits])
        return ranking_loss(query_logits, bits, targets, self._log_scale.exp())

    def _draw(
        self, rows: Rows, query_logits: Floats, n_hard: int, rng: np.random.Generator
    ) -> Rows:
        """Return documents: of each query some relevant and some hard ones, and random ones."""
        scores = query_logits @ self._bits.T
        n_found = min(_FOUND, scores.shape[1])
        drawn = [rng.permutation(scores.shape[1])[:_RANDOM]]
        for position, row in enumerate(rows):
            relevant = self._grades.indices[self._grades.indptr[row] : self._grades.indptr[row + 1]]
            scores[position, relevant] = -np.inf
            found = np.argpartition(-scores[position], n_found - 1)[:n_found]
            drawn += [rng.permutation(relevant)[:_RELEVANT], rng.permutation(found)[:n_hard]]
        return np.unique(np.concatenate(drawn)).astype(np.int64)

    def _logits(self, read: Read, rows: Rows) -> Tensor:
        if self._is_sparse:
            batch = SparseBatch.of_rows(read.rows, rows)
            return weighted_sum(batch, self._weight, sparse=True) - self._cut
        return torch.from_numpy(np.asarray(read.rows[rows])) @ self._weight - self._cut


class _HeldOut:
    """Measures the rankings of held-out queries among all documents."""

    def __init__(self, queries: Read, documents: Read, grades_QN: Any, rows: Rows) -> None:
        self._queries = Read(queries.rows[rows], queries.class_values[rows])
        self._documents = documents
        names = [str(row) for row in rows]
        qrels: dict[str, dict[str, int]] = {name: {} for name in names}
        of_rows = grades_QN[rows].tocoo()
        for position, column, grade in zip(of_rows.row, of_rows.col, of_rows.data, strict=True):
            qrels[names[position]][str(column)] = int(grade)
        n_documents = grades_QN.shape[1]
        self._relevance, _ = relevance_by_qrels(qrels, names, [*map(str, range(n_documents))])

    def values(self, weight: Floats, cut: Floats) -> dict[str, PerQuery]:
        """Return nDCG@10 of each query, tie-averaged, by ranking."""
        of_queries = _values(weight, cut, self._queries.rows)
        weights = np.hstack([self._queries.class_values, of_queries])
        content = _signs(_values(weight, cut, self._documents.rows))
        bits = np.hstack([self._documents.class_values, content])
        rankings = {"hamming": _signs(weights), "asymmetric": weights}
        evaluations = {
            name: evaluate_by_score([values @ bits.T], self._relevance, [METRIC])
            for name, values in rankings.items()
        }
        return {
            name: evaluation.expected_per_query[METRIC] for name, evaluation in evaluations.items()
        }
