"""Calls for labels, judgements and retraining; see :mod:`hummingbit.clients.calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hummingbit.clients.document_calls import NDJSON
from hummingbit.clients.labels import label_responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.operations.operation_calls import job_path
from hummingbit.clients.transport import Call, collection_path, query_string, without_none


def labels(name: str, **query: Any) -> Call[label_responses.LabelPage]:
    """List a page of labels."""
    return Call("GET", _path(name, "labels", **query))


def set_labels(
    name: str, labels: Sequence[Mapping[str, Any]]
) -> Call[label_responses.AnnotationsWritten]:
    """Set or remove labels."""
    return Call("PUT", _path(name, "labels"), {"labels": [dict(label) for label in labels]})


def suggest_labels(name: str, **query: Any) -> Call[label_responses.SuggestedLabels]:
    """Suggest documents to label."""
    return Call("GET", _path(name, "labels/suggest", **query))


def label_stats(name: str, label_field: str | None) -> Call[label_responses.LabelStats]:
    """Count labels and measure agreement."""
    return Call("GET", _path(name, "labels/stats", label_field=label_field))


def judgements(name: str, **query: Any) -> Call[label_responses.JudgementPage]:
    """List a page of judgements."""
    return Call("GET", _path(name, "judgements", **query))


def set_judgements(
    name: str, judgements: Sequence[Mapping[str, Any]]
) -> Call[label_responses.AnnotationsWritten]:
    """Set or remove judgements."""
    body = {"judgements": [dict(judgement) for judgement in judgements]}
    return Call("PUT", _path(name, "judgements"), body)


def judgement_pool(name: str, query: str, **options: Any) -> Call[label_responses.JudgementPool]:
    """Get answers to judge."""
    return Call("GET", _path(name, "judgements/pool", query=query, **options))


def import_labels(
    name: str, content: bytes, form: str, who: str | None
) -> Call[label_responses.Imported]:
    """Import labels and judgements from JSON lines or qrels."""
    path = _path(name, "labels/import", format=form, who=who)
    return Call("POST", path, content=content, headers={"Content-Type": NDJSON})


def retrain(name: str, options: Mapping[str, Any]) -> Call[operation_responses.Job]:
    """Start training a new encoder on the labels."""
    return Call("POST", _path(name, "retrain"), without_none(**options), repeatable=False)


def confirm(job: str) -> Call[operation_responses.Job]:
    """Go live with the encoder of a retraining."""
    return Call("POST", f"{job_path(job)}/confirm")


def take_back(job: str) -> Call[operation_responses.Alias]:
    """Move the alias back to the old collection."""
    return Call("POST", f"{job_path(job)}/take-back", repeatable=False)


def _path(name: str, resource: str, **query: Any) -> str:
    return f"{collection_path(name)}/{resource}{query_string(**query)}"
