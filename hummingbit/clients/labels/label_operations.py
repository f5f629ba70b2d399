"""The methods of a client for labels, judgements and retraining."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hummingbit.clients.labels import label_calls, label_responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.transport import Call

Answer = TypeVar("Answer")


class LabelOperations(ABC):
    """The methods of :class:`hummingbit.Client` for labels, judgements and retraining."""

    @abstractmethod
    def _call(self, call: Call[Answer]) -> Answer: ...

    def labels(self, name: str, **query: Any) -> label_responses.LabelPage:
        """List a page of labels: `limit`, `cursor`, `document`, `who`."""
        return self._call(label_calls.labels(name, **query))

    def set_labels(
        self, name: str, labels: Sequence[Mapping[str, Any]]
    ) -> label_responses.AnnotationsWritten:
        """Set labels, such as ``{"id": "a", "label": "one"}``; a label of None removes it."""
        return self._call(label_calls.set_labels(name, labels))

    def suggest_labels(
        self, name: str, n: int = 10, **query: Any
    ) -> label_responses.SuggestedLabels:
        """Suggest `n` documents to label: `method`, `label_field`, `who`, `skip`."""
        return self._call(label_calls.suggest_labels(name, n=n, **query))

    def label_stats(self, name: str, label_field: str | None = None) -> label_responses.LabelStats:
        """Return counts of labels, people's agreement, and the expected gain of a further label."""
        return self._call(label_calls.label_stats(name, label_field))

    def judgements(self, name: str, **query: Any) -> label_responses.JudgementPage:
        """List a page of judgements: `limit`, `cursor`, `query`, `who`."""
        return self._call(label_calls.judgements(name, **query))

    def set_judgements(
        self, name: str, judgements: Sequence[Mapping[str, Any]]
    ) -> label_responses.AnnotationsWritten:
        """Set judgements, such as ``{"query": "q", "id": "a", "grade": 1}``; None removes one."""
        return self._call(label_calls.set_judgements(name, judgements))

    def judgement_pool(
        self, name: str, query: str, **options: Any
    ) -> label_responses.JudgementPool:
        """Get answers to judge, the most informative first: `n`, `depth`, `method`, `who`."""
        return self._call(label_calls.judgement_pool(name, query, **options))

    def import_labels(
        self, name: str, content: bytes, form: str = "jsonl", who: str | None = None
    ) -> label_responses.Imported:
        """Import labels and judgements from JSON lines, or judgements from qrels."""
        return self._call(label_calls.import_labels(name, content, form, who))

    def retrain(self, name: str, **options: Any) -> operation_responses.Job:
        """Start training a new encoder on the labels; see `POST …/retrain` for the options."""
        return self._call(label_calls.retrain(name, options))

    def confirm(self, job: str) -> operation_responses.Job:
        """Go live with the encoder of a retraining, as a job."""
        return self._call(label_calls.confirm(job))

    def take_back(self, job: str) -> operation_responses.Alias:
        """Move the alias of a retraining back to the old collection."""
        return self._call(label_calls.take_back(job))
