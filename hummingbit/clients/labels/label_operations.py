"""What a client can do with labels and judgements: set, list, suggest, retrain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hummingbit.clients.labels import label_calls, label_responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.transport import Call

Answer = TypeVar("Answer")


class LabelOperations(ABC):
    """These methods of :class:`hummingbit.Client`."""

    @abstractmethod
    def _call(self, call: Call[Answer]) -> Answer: ...

    def labels(self, name: str, **query: Any) -> label_responses.LabelPage:
        """List a page of labels: `limit`, `cursor`, `document`, `who`."""
        return self._call(label_calls.labels(name, **query))

    def set_labels(
        self, name: str, labels: Sequence[Mapping[str, Any]]
    ) -> label_responses.AnnotationsWritten:
        """Set labels, such as ``{"id": "a", "label": "one"}``; a label of None is taken back."""
        return self._call(label_calls.set_labels(name, labels))

    def suggest_labels(
        self, name: str, n: int = 10, **query: Any
    ) -> label_responses.SuggestedLabels:
        """Suggest `n` documents to label: `method`, `label_field`, `who`, `skip`."""
        return self._call(label_calls.suggest_labels(name, n=n, **query))

    def label_stats(self, name: str, label_field: str | None = None) -> label_responses.LabelStats:
        """Count labels, and say how far people agree and what a next label is expected to gain."""
        return self._call(label_calls.label_stats(name, label_field))

    def judgements(self, name: str, **query: Any) -> label_responses.JudgementPage:
        """List a page of judgements: `limit`, `cursor`, `query`, `who`."""
        return self._call(label_calls.judgements(name, **query))

    def set_judgements(
        self, name: str, judgements: Sequence[Mapping[str, Any]]
    ) -> label_responses.AnnotationsWritten:
        """Set judgements, such as ``{"query": "q", "id": "a", "grade": 1}``; None takes back."""
        return self._call(label_calls.set_judgements(name, judgements))

    def judgement_pool(
        self, name: str, query: str, **options: Any
    ) -> label_responses.JudgementPool:
        """Pool answers to judge, the most informative first: `n`, `depth`, `method`, `who`."""
        return self._call(label_calls.judgement_pool(name, query, **options))

    def import_labels(
        self, name: str, content: bytes, form: str = "jsonl", who: str | None = None
    ) -> label_responses.Imported:
        """Write labels and judgements of JSON lines, or judgements of qrels."""
        return self._call(label_calls.import_labels(name, content, form, who))

    def retrain(self, name: str, **options: Any) -> operation_responses.Job:
        """Begin to make a better encoder of the labels; see `POST …/retrain` for the options."""
        return self._call(label_calls.retrain(name, options))

    def confirm(self, job: str) -> operation_responses.Job:
        """Let the encoder that a retraining made take over, as a job."""
        return self._call(label_calls.confirm(job))

    def take_back(self, job: str) -> operation_responses.Alias:
        """Let the alias that a retraining moved mean the old collection again."""
        return self._call(label_calls.take_back(job))
