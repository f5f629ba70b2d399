"""What is sent to a service about labels and retraining; see :mod:`hummingbit.clients.calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hummingbit.clients.document_calls import NDJSON
from hummingbit.clients.labels import label_responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.operations.operation_calls import job_path
from hummingbit.clients.transport import Call, collection_path, given, query_string


def labels(name: str, **query: Any) -> Call[label_responses.LabelPage]:
    """List a page of labels."""
    return Call("GET", _path(name, "labels", **query))


def set_labels(
    name: str, labels: Sequence[Mapping[str, Any]]
) -> Call[label_responses.AnnotationsWritten]:
    """Set labels, or take them back."""
    return Call("PUT", _path(name, "labels"), {"labels": [dict(one) for one in labels]})


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
    """Set judgements, or take them back."""
    body = {"judgements": [dict(one) for one in judgements]}
    return Call("PUT", _path(name, "judgements"), body)


def judgement_pool(name: str, query: str, **options: Any) -> Call[label_responses.JudgementPool]:
    """Pool answers to judge."""
    return Call("GET", _path(name, "judgements/pool", query=query, **options))


def import_labels(
    name: str, content: bytes, form: str, who: str | None
) -> Call[label_responses.Imported]:
    """Read labels and judgements, JSON lines or qrels."""
    path = _path(name, "labels/import", format=form, who=who)
    return Call("POST", path, content=content, headers={"Content-Type": NDJSON})


def retrain(name: str, options: Mapping[str, Any]) -> Call[operation_responses.Job]:
    """Begin to make a better encoder of the labels."""
    return Call("POST", _path(name, "retrain"), given(**options), repeatable=False)


def confirm(job: str) -> Call[operation_responses.Job]:
    """Let the encoder that a retraining made take over."""
    return Call("POST", f"{job_path(job)}/confirm")


def take_back(job: str) -> Call[operation_responses.Alias]:
    """Let an alias mean the old collection again."""
    return Call("POST", f"{job_path(job)}/take-back", repeatable=False)


def _path(name: str, what: str, **query: Any) -> str:
    return f"{collection_path(name)}/{what}{query_string(**query)}"
