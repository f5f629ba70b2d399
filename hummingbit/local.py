"""Evaluating and labelling the collections of a data folder.

:class:`LocalWorkbench` has the methods of :class:`hummingbit.remote.RemoteFolder` that need more
than an index, so commands evaluate and label here and at a service alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.evaluation.labelling.exchange import import_records, read_lines
from hummingbit.evaluation.labelling.statistics import label_statistics
from hummingbit.evaluation.labelling.suggestions import (
    AP_PRIOR,
    VectorCache,
    pool_answers,
    suggest_documents,
    suggestions_to_json,
)
from hummingbit.evaluation.rankings import RelevanceSettings
from hummingbit.evaluation.report import Job, TeacherVectors, read_training_labels, run_job
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import begin_stage
from hummingbit.foundation.times import now
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.options import DEFAULT_OVERSAMPLE
from hummingbit.index.store.annotations import ANONYMOUS, DocumentLabel, Judgement


class LocalWorkbench:
    """Evaluates and labels the collections of an open data folder."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder

    def __enter__(self) -> LocalWorkbench:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.close()

    def collection(self, name: str) -> Collection:
        """Return a collection by its name or an alias."""
        return self._folder.collection(name)

    def evaluate(
        self,
        name: str,
        queries: Sequence[Document],
        metrics: Iterable[str] | None,
        settings: RelevanceSettings,
        *,
        rankings: Sequence[str] | None = None,
        oversample: float = DEFAULT_OVERSAMPLE,
        codes_weights: Sequence[float] = (),
        teacher: str | None = None,
    ) -> Job:
        """Evaluate a collection; see :func:`hummingbit.evaluation.report.run_job`.

        `teacher` is a source of :func:`hummingbit.training.teachers.read_teacher`.

        Raises:
            TeacherError: if the teacher's vectors cannot be read, or lack a document.
            InputError: if it reads texts, and a document has none.
        """
        collection = self.collection(name)
        return run_job(
            collection,
            queries,
            metrics,
            settings,
            read_training_labels(self._folder, collection),
            rankings=rankings,
            oversample=oversample,
            codes_weights=codes_weights,
            teacher=None if teacher is None else _teacher_vectors(teacher, collection),
        )

    def labels(self, name: str) -> LocalLabels:
        """Return the labels and judgements of a collection."""
        return LocalLabels(self.collection(name))


def _teacher_vectors(source: str, collection: CollectionBackend) -> TeacherVectors:
    # An evaluation without a teacher needs nothing of training.
    from hummingbit.training.data import Tags, TrainingData  # noqa: PLC0415
    from hummingbit.training.teachers import VECTOR_FILES, read_teacher  # noqa: PLC0415

    begin_stage(f"asking the teacher {source}")
    documents = collection.all_documents()
    texts = [document.text for document in documents]
    if None in texts and not source.endswith(VECTOR_FILES):
        raise InputError("--teacher", f"{source}: reads texts, and some documents have none")
    no_tags: Tags = np.zeros((len(documents), 0), dtype=np.bool_)
    ids = tuple(document.id for document in documents)
    teacher = read_teacher(source, TrainingData(ids, [text or "" for text in texts], (), no_tags))
    return TeacherVectors(teacher.name, dict(zip(ids, teacher.vectors, strict=True)))


class LocalLabels:
    """The labels and judgements of a collection.

    :class:`hummingbit.remote.RemoteAnnotations` has the same methods for one of a service.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def labels(self) -> list[DocumentLabel]:
        """Return all labels."""
        return self._collection.annotations.labels()

    def judgements(self) -> list[Judgement]:
        """Return all judgements."""
        return self._collection.annotations.judgements()

    def suggest(
        self, n: int, method: str, *, label_field: str | None, who: str | None
    ) -> dict[str, Any]:
        """Return documents to label next, as ``GET …/labels/suggest`` does."""
        suggested = suggest_documents(
            self._collection,
            VectorCache(),
            n,
            method,
            label_field=label_field,
            who=who or ANONYMOUS,
        )
        return suggestions_to_json(method, *suggested)

    def set(
        self, id_: str, labels: Sequence[str] | None, *, grade: int = 1, who: str | None = None
    ) -> bool:
        """Label a document, or with None remove its labels; return whether that changed any."""
        annotations, who = self._collection.annotations, who or ANONYMOUS
        if labels is None:
            return bool(annotations.set_labels([], [(id_, who)]).changed)
        label = DocumentLabel(id_, tuple(labels), who, grade, now())
        return bool(annotations.set_labels([label]).changed)

    def stats(self, label_field: str | None = None) -> dict[str, Any]:
        """Return statistics, as ``GET …/labels/stats`` does."""
        return label_statistics(self._collection, VectorCache(), label_field)

    def read(
        self, content: bytes, form: str, source: str, who: str | None = None
    ) -> dict[str, Any]:
        """Import records of `source`; return how many changed, and how many are of unknown ids."""
        lines = content.decode("utf-8-sig").split("\n")
        report = import_records(self._collection, *read_lines(lines, form, source, who))
        return {"changed": report.changed, "unknown": report.unknown}

    def pool(self, question: str, n: int, depth: int) -> list[tuple[str, str]]:
        """Return ids and texts of `n` answers to judge, from `depth` hits of each ranking."""
        pooled, _ = pool_answers(self._collection, question, depth, AP_PRIOR)
        documents = [self._collection.get(answer.id) for answer in pooled[:n]]
        return [
            (document.id, document.text or "") for document in documents if document is not None
        ]
