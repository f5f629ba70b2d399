"""Calls for collections, documents, searches and encoders: the method, path and body of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hummingbit.clients import responses
from hummingbit.clients.responses import CodeFormat
from hummingbit.clients.transport import (
    Call,
    collection_path,
    document_path,
    encoder_path,
    json_value,
    path_segment,
    without_none,
)


def search_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a search from the arguments of a client's method."""
    return {key: value for key, value in arguments.items() if key not in {"self", "name"}}


def ready() -> Call[responses.Ready]:
    """Check that every collection and encoder is open."""
    return Call("GET", "/readyz")


def collections() -> Call[responses.Collections]:
    """List the collections."""
    return Call("GET", "/v1/collections")


def collection(name: str) -> Call[responses.CollectionDetail]:
    """Describe a collection."""
    return Call("GET", collection_path(name))


def stats(name: str) -> Call[responses.CollectionStats]:
    """Get a collection's statistics."""
    return Call("GET", f"{collection_path(name)}/stats")


def create_collection(
    name: str,
    encoder: str | None,
    n_bits: int | None,
    engine: str | None,
    indexed_fields: Sequence[str] | None,
    *,
    keep_vectors: str | None,
) -> Call[responses.CollectionSummary]:
    """Create a collection; one with the same settings may already exist."""
    fields = None if indexed_fields is None else [*indexed_fields]
    body = without_none(
        encoder=encoder,
        n_bits=n_bits,
        engine=engine,
        indexed_fields=fields,
        keep_vectors=keep_vectors,
    )
    return Call("PUT", collection_path(name), body)


def update_collection(name: str, ranking: str) -> Call[responses.CollectionSummary]:
    """Change a collection's default ranking."""
    return Call("PATCH", collection_path(name), {"ranking": ranking})


def delete_collection(name: str) -> Call[None]:
    """Delete a collection."""
    return Call("DELETE", collection_path(name))


def upsert(
    name: str,
    documents: Sequence[Mapping[str, Any]],
    encoder_fingerprint: str | None,
    *,
    create_only: bool,
) -> Call[responses.Upserted]:
    """Insert documents; replace those with the same ids, unless `create_only`."""
    records = [
        {field: json_value(value) for field, value in document.items()} for document in documents
    ]
    body = without_none(documents=records, encoder_fingerprint=encoder_fingerprint)
    headers = {"If-None-Match": "*"} if create_only else {}
    path = f"{collection_path(name)}/documents"
    return Call("PUT", path, body, repeatable=not create_only, headers=headers)


def get(name: str, document_id: str) -> Call[responses.StoredDocument]:
    """Get a document."""
    return Call("GET", document_path(name, document_id))


def delete(name: str, document_id: str) -> Call[None]:
    """Delete a document."""
    return Call("DELETE", document_path(name, document_id))


def search(name: str, fields: Mapping[str, Any]) -> Call[responses.SearchResponse]:
    """Search; the body is `fields` without those that are None."""
    return Call("POST", f"{collection_path(name)}/search", without_none(**fields))


def search_batch(
    name: str,
    searches: Sequence[Mapping[str, Any]],
    ranking: str | None,
    filter_: Mapping[str, Any] | None,
    encoder_fingerprint: str | None,
    *,
    rescore: Mapping[str, Any] | None,
) -> Call[dict[str, list[responses.SearchResponse]]]:
    """Search many times in one generation."""
    body = without_none(
        searches=[without_none(**search_) for search_ in searches],
        ranking=ranking,
        rescore=rescore,
        filter=filter_,
        encoder_fingerprint=encoder_fingerprint,
    )
    return Call("POST", f"{collection_path(name)}/search/batch", body)


def encoders() -> Call[responses.Encoders]:
    """List the encoders."""
    return Call("GET", "/v1/encoders")


def encoder(name: str) -> Call[responses.EncoderDetail]:
    """Describe an encoder."""
    return Call("GET", encoder_path(name))


def encode(
    name: str,
    texts: Sequence[str] | None,
    vectors: Sequence[Any] | None,
    form: CodeFormat,
) -> Call[responses.EncodedInputs]:
    """Encode texts or vectors.

    Raises:
        ValueError: unless exactly one of the two is given.
    """
    if (texts is None) == (vectors is None):
        raise ValueError("exactly one of texts and vectors must be given")
    inputs = [{"text": text} for text in texts or ()]
    inputs += [{"vector": json_value(vector)} for vector in vectors or ()]
    body = {"inputs": inputs, "format": form}
    return Call("POST", f"{encoder_path(name)}/encode", body)


def evaluate(name: str, body: Mapping[str, Any]) -> Call[responses.EvaluationStatus]:
    """Start an evaluation in the background."""
    headers = {"Prefer": "respond-async"}
    path = f"{collection_path(name)}/evaluate"
    return Call("POST", path, dict(body), repeatable=False, headers=headers)


def evaluation(evaluation_id: str) -> Call[responses.EvaluationStatus]:
    """Get the status of an evaluation."""
    return Call("GET", f"/v1/evaluations/{path_segment(evaluation_id)}")


def trec_run(evaluation_id: str) -> Call[str]:
    """Get an evaluation's run in TREC's format."""
    return Call("GET", f"/v1/evaluations/{path_segment(evaluation_id)}?format=trec")
