"""The asynchronous methods for labels, judgements and retraining.

Made from :mod:`hummingbit.clients.labels.label_operations` by ``make clients``; edit that instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hummingbit.clients.labels import label_calls, label_responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.transport import Call

Answer = TypeVar("Answer")


class AsyncLabelOperations(ABC):
    """The methods of :class:`hummingbit.AsyncClient` for labels, judgements and retraining."""

    @abstractmethod
    async def _call(self, call: Call[Answer]) -> Answer: ...

    async def labels(self, name: str, **query: Any) -> label_responses.LabelPage:
        """See :meth:`hummingbit.Client.labels`."""
        return await self._call(label_calls.labels(name, **query))

    async def set_labels(
        self, name: str, labels: Sequence[Mapping[str, Any]]
    ) -> label_responses.AnnotationsWritten:
        """See :meth:`hummingbit.Client.set_labels`."""
        return await self._call(label_calls.set_labels(name, labels))

    async def suggest_labels(
        self, name: str, n: int = 10, **query: Any
    ) -> label_responses.SuggestedLabels:
        """See :meth:`hummingbit.Client.suggest_labels`."""
        return await self._call(label_calls.suggest_labels(name, n=n, **query))

    async def label_stats(
        self, name: str, label_field: str | None = None
    ) -> label_responses.LabelStats:
        """See :meth:`hummingbit.Client.label_stats`."""
        return await self._call(label_calls.label_stats(name, label_field))

    async def judgements(self, name: str, **query: Any) -> label_responses.JudgementPage:
        """See :meth:`hummingbit.Client.judgements`."""
        return await self._call(label_calls.judgements(name, **query))

    async def set_judgements(
        self, name: str, judgements: Sequence[Mapping[str, Any]]
    ) -> label_responses.AnnotationsWritten:
        """See :meth:`hummingbit.Client.set_judgements`."""
        return await self._call(label_calls.set_judgements(name, judgements))

    async def judgement_pool(
        self, name: str, query: str, **options: Any
    ) -> label_responses.JudgementPool:
        """See :meth:`hummingbit.Client.judgement_pool`."""
        return await self._call(label_calls.judgement_pool(name, query, **options))

    async def import_labels(
        self, name: str, content: bytes, form: str = "jsonl", who: str | None = None
    ) -> label_responses.Imported:
        """See :meth:`hummingbit.Client.import_labels`."""
        return await self._call(label_calls.import_labels(name, content, form, who))

    async def retrain(self, name: str, **options: Any) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.retrain`."""
        return await self._call(label_calls.retrain(name, options))

    async def confirm(self, job: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.confirm`."""
        return await self._call(label_calls.confirm(job))

    async def take_back(self, job: str) -> operation_responses.Alias:
        """See :meth:`hummingbit.Client.take_back`."""
        return await self._call(label_calls.take_back(job))
