"""The labels of a collection, in a data folder or at a service, with one interface for both."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from evaluation.labelling.document_vectors import VectorCache
from evaluation.labelling.exchange import import_records, read_lines
from evaluation.labelling.label_statistics import label_statistics
from evaluation.labelling.suggesting import suggest_documents, suggestions_to_json
from foundation.errors import InputError
from foundation.times import now
from hummingbit.commands.data_folder_options import open_folder, service_at
from index.annotations.annotation_records import (
    ANONYMOUS,
    DocumentLabel,
    Judgement,
)
from index.collection import Collection

if TYPE_CHECKING:
    from hummingbit.clients.client import Client


class LabelSource(Protocol):
    """The labels and judgements of one collection."""

    def suggest(
        self, n: int, method: str, *, label_field: str | None, who: str | None
    ) -> dict[str, Any]:
        """Return suggestions as the service's ``labels/suggest`` does."""

    def set(self, record: dict[str, Any]) -> bool:
        """Set a label, or remove it if its labels are None; return whether that changed it."""

    def stats(self, label_field: str | None) -> dict[str, Any]:
        """Return statistics as the service's ``labels/stats`` does."""

    def records(self) -> tuple[list[DocumentLabel], list[Judgement]]:
        """Return all labels and judgements."""

    def read(self, content: bytes, form: str, source: str, who: str | None) -> dict[str, Any]:
        """Import records, and return a report as the service's ``labels/import`` does."""


@contextmanager
def label_source(args: argparse.Namespace, *, writable: bool = False) -> Iterator[LabelSource]:
    """Yield the labels of the collection that the options name."""
    if args.url is not None:
        with service_at(args) as client:
            yield _Remote(client, args.collection)
        return
    with open_folder(args, writable=writable) as folder:
        collection = folder.collection(args.collection)
        if not isinstance(collection, Collection):
            message = f"{collection.name!r} is on Milvus; only local collections have labels"
            raise InputError("collection", message)
        yield _Local(collection)


class _Local:
    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def suggest(
        self, n: int, method: str, *, label_field: str | None, who: str | None
    ) -> dict[str, Any]:
        suggested = suggest_documents(
            self._collection,
            VectorCache(),
            n,
            method,
            label_field=label_field,
            who=who or ANONYMOUS,
        )
        return suggestions_to_json(method, *suggested)

    def set(self, record: dict[str, Any]) -> bool:
        annotations, who = self._collection.annotations, record["who"] or ANONYMOUS
        if record["labels"] is None:
            return bool(annotations.set_labels([], [(record["id"], who)]).changed)
        label = DocumentLabel(record["id"], tuple(record["labels"]), who, record["grade"], now())
        return bool(annotations.set_labels([label]).changed)

    def stats(self, label_field: str | None) -> dict[str, Any]:
        return label_statistics(self._collection, VectorCache(), label_field)

    def records(self) -> tuple[list[DocumentLabel], list[Judgement]]:
        annotations = self._collection.annotations
        return annotations.labels(), annotations.judgements()

    def read(self, content: bytes, form: str, source: str, who: str | None) -> dict[str, Any]:
        lines = content.decode("utf-8-sig").split("\n")
        report = import_records(self._collection, *read_lines(lines, form, source, who))
        return {"changed": report.changed, "unknown": report.unknown}


class _Remote:
    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    def suggest(
        self, n: int, method: str, *, label_field: str | None, who: str | None
    ) -> dict[str, Any]:
        return dict(
            self._client.suggest_labels(
                self._name, n, method=method, label_field=label_field, who=who
            )
        )

    def set(self, record: dict[str, Any]) -> bool:
        fields = {
            name: value for name, value in record.items() if name != "who" or value is not None
        }
        return bool(self._client.set_labels(self._name, [fields])["changed"])

    def stats(self, label_field: str | None) -> dict[str, Any]:
        return dict(self._client.label_stats(self._name, label_field))

    def records(self) -> tuple[list[DocumentLabel], list[Judgement]]:
        from hummingbit.service_transfer import annotations_of  # noqa: PLC0415 - only a service needs it

        records = list(annotations_of(self._client, self._name))
        labels = [one for one in records if isinstance(one, DocumentLabel)]
        return labels, [one for one in records if isinstance(one, Judgement)]

    def read(self, content: bytes, form: str, source: str, who: str | None) -> dict[str, Any]:  # noqa: ARG002
        return dict(self._client.import_labels(self._name, content, form, who))
