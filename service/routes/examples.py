"""An example for each schema of the OpenAPI description.

Those of requests are written out. Those of responses are made of their fields: a value by the name
of the field, or else by its type.
"""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, Any] = {
    "CreateCollection": {"encoder": "docstrings32"},
    "UpdateCollection": {"ranking": "hybrid"},
    "IndexFields": {"indexed_fields": ["year", "author.name"]},
    "UpsertDocuments": {
        "documents": [
            {
                "id": "numpy.linalg.eigh",
                "text": "Return the eigenvalues and eigenvectors of a complex Hermitian matrix.",
                "label": "numpy.linalg",
                "payload": {"module": "numpy"},
            }
        ]
    },
    "SearchRequest": {
        "text": "eigenvalues of a symmetric matrix",
        "limit": 10,
        "radius": 6,
        "with_payload": True,
    },
    "SearchBatch": {"searches": [{"text": "eigenvalues"}, {"id": "numpy.linalg.eigh", "limit": 3}]},
    "ScrollRequest": {"limit": 100, "filter": {"field": "label", "eq": "numpy.linalg"}},
    "GetRequest": {"ids": ["numpy.linalg.eigh", "numpy.linalg.svd"]},
    "CountRequest": {"filter": {"field": "label", "eq": "numpy.linalg"}},
    "FacetsRequest": {"facets": [{"field": "label"}, {"field": "year", "interval": 10}]},
    "UpdatePayloads": {"updates": [{"ids": ["numpy.linalg.eigh"], "set": {"reviewed": True}}]},
    "RecommendRequest": {"positive": ["numpy.linalg.eigh"], "negative": ["os.getcwd"]},
    "DeleteRequest": {"ids": ["numpy.linalg.eigh"]},
    "ChangeAliases": {
        "actions": [{"add": {"alias": "docstrings", "collection": "docstrings-2"}}],
    },
    "Reindex": {"encoder": "docstrings64", "into": "docstrings-2", "alias": "docstrings"},
    "Train": {"method": "ict", "settings": {"n_bits": 128}, "into": "books-2"},
    "Retrain": {"label_field": "label", "auto": False},
    "RestoreSnapshot": {"collection": "docstrings-restored"},
    "PutLabels": {"labels": [{"id": "numpy.linalg.eigh", "label": "numpy.linalg"}]},
    "PutJudgements": {
        "judgements": [{"query": "eigenvalues", "id": "numpy.linalg.eigh", "grade": 1}]
    },
    "EmbeddingsRequest": {
        "model": "docstrings64",
        "input": ["eigenvalues of a symmetric matrix"],
    },
    "EncodeRequest": {"inputs": [{"text": "eigenvalues of a symmetric matrix"}]},
    "EncoderInputs": {
        "inputs": [{"text": "eigenvalues of a symmetric matrix"}],
        "format": "bits",
    },
    "CompareEvaluations": {
        "baseline": "5c0c1f0f2d4e4a0b",
        "gate": '[metrics."P@100"]\nmin = 0.6\nmax_drop = 0.01',
    },
    "DrawMap": {"method": "pca", "label_field": "label"},
    "DeleteDuplicates": {"keep": "newest"},
    "FindDuplicates": {"radius": 4, "confirm": 0.5},
    "EvaluateRequest": {
        "queries": [{"id": "q1", "text": "eigenvalues", "label": "numpy.linalg"}],
        "metrics": ["P@100", "mAP@100", "nDCG@10"],
    },
    "AliasAction": {"add": {"alias": "docstrings", "collection": "docstrings-2"}},
    "AliasToAdd": {"alias": "docstrings", "collection": "docstrings-2"},
    "AliasToRemove": {"alias": "docstrings"},
    "BatchedSearch": {"text": "eigenvalues", "limit": 3},
    "EncodeInput": {"text": "eigenvalues of a symmetric matrix"},
    "FacetRange": {"gte": 1990, "lt": 2000},
    "FacetRequest": {"field": "year", "interval": 10},
    "HybridOptions": {"codes": 2.0},
    "LabelledQuery": {"id": "q1", "text": "eigenvalues", "label": "numpy.linalg"},
    "NewDocument": {
        "id": "numpy.linalg.eigh",
        "text": "Return the eigenvalues and eigenvectors of a complex Hermitian matrix.",
        "label": "numpy.linalg",
        "payload": {"module": "numpy"},
    },
    "NewJudgement": {"query": "eigenvalues", "id": "numpy.linalg.eigh", "grade": 1},
    "NewLabel": {"id": "numpy.linalg.eigh", "label": "numpy.linalg"},
    "PassageSettings": {"words": 128},
    "PayloadUpdateRequest": {"ids": ["numpy.linalg.eigh"], "set": {"reviewed": True}},
    "RescoreOptions": {"by": "bm25", "oversample": 4.0},
    "SearchFields": {"text": "eigenvalues of a symmetric matrix"},
    "SortBy": {"field": "year", "order": "desc"},
}
"""An example of each request and of its parts, by the name of the schema."""
FILTERS: dict[str, Any] = {
    "Filter": {"field": "year", "gte": 1990},
    "Condition": {"field": "year", "gte": 1990},
    "AndFilter": {
        "and": [{"field": "year", "gte": 1990}, {"field": "label", "eq": "numpy.linalg"}]
    },
    "OrFilter": {"or": [{"field": "year", "lt": 1990}, {"field": "label", "eq": "numpy.linalg"}]},
    "NotFilter": {"not": {"field": "label", "eq": "numpy.linalg"}},
    "IdFilter": {"has_id": ["numpy.linalg.eigh", "numpy.linalg.svd"]},
}
_ENCODER = {"name": "docstrings32", "fingerprint": "9f86d081884c7d65"}
_ERROR = {
    "code": "invalid_request",
    "detail": "payload.year: must be a finite number",
    "errors": [{"pointer": "/payload/year", "message": "must be a finite number"}],
}
_JOB = "5c0c1f0f2d4e4a0b"
RESPONSES: dict[str, Any] = {
    "EncoderName": _ENCODER,
    "FacetBucket": {"count": 12, "value": "numpy.linalg"},
    "JobError": _ERROR,
    "JobInfo": {
        "id": _JOB,
        "kind": "reindex",
        "collection": "docstrings",
        "state": "running",
        "progress": {"step": "encoding", "done": 400, "total": 1240, "percent": 32.3},
        "attempts": 1,
        "created": "2026-01-31T12:00:00.000+00:00",
        "started": "2026-01-31T12:00:01.000+00:00",
        "finished": None,
        "result": None,
        "error": None,
    },
    "LineError": {"line": 7, "id": "numpy.linalg.eigh", "status": 422, **_ERROR},
    "Problem": {
        "type": "urn:hummingbit:problem:invalid_request",
        "title": "Invalid request",
        "status": 422,
        "detail": "limit: must be at least 1",
        "instance": "/v1/collections/docstrings/search",
        "code": "invalid_request",
        "errors": [{"pointer": "/limit", "message": "must be at least 1"}],
        "request_id": "ae046aa619da5128",
    },
    "Status": {"status": "alive"},
    "Access": {
        "role": "read",
        "read_only": False,
        "version": "0.1.0",
        "limits": {"max_limit": 1000},
        "rankings": ["hamming", "asymmetric", "bm25", "hybrid"],
    },
}
_TEXT = "Return the eigenvalues and eigenvectors of a complex Hermitian matrix."
VALUES: dict[str, Any] = {
    "adjusted": 0.04,
    "alias": "docstrings",
    "attempts": 1,
    "bytes": 1_048_576,
    "bytes_after": 1_048_576,
    "bytes_before": 2_097_152,
    "bytes_on_disk": 1_048_576,
    "classes": ["numpy.linalg", "os"],
    "code": "0f3a9c77",
    "codes": ["0f3a9c77"],
    "collection": "docstrings-2",
    "collections": ["docstrings-2"],
    "completions": ["eigenvalues"],
    "console": "/console",
    "corrected": [["eigenvales", "eigenvalues"]],
    "created": "2026-01-31T12:00:00.000+00:00",
    "detail": "text: is missing",
    "dimension": 384,
    "distance": 4,
    "distinct_codes": 1180,
    "docs": "/docs",
    "documents": 1240,
    "encoder": "docstrings32",
    "encoder_fingerprint": "9f86d081884c7d65",
    "encoder_nearest": "numpy.linalg.svd",
    "encoders": ["docstrings32"],
    "engine": "kernel",
    "engine_reason": "codes are looked up by halves",
    "engine_setting": "auto",
    "expanded": {"eigenvalues": ["eigenvectors"]},
    "field": "year",
    "finished": "2026-01-31T12:00:05.000+00:00",
    "fingerprint": "9f86d081884c7d65",
    "generation": 17,
    "given_labels": ["numpy.linalg"],
    "hummingbit": "0.1.0",
    "id": "numpy.linalg.eigh",
    "ids": ["numpy.linalg.eigh", "numpy.linalg.svd"],
    "indexed_fields": ["year"],
    "instance": "/v1/collections/docstrings/search",
    "kernel": "avx2",
    "kind": "train",
    "label": "numpy.linalg",
    "label_field": "label",
    "labels": ["numpy.linalg"],
    "language": "english",
    "message": "must be an integer",
    "method": "uncertain",
    "metric": "P@100",
    "metrics": {"P@100": 0.61},
    "missing": ["numpy.linalg.absent"],
    "missing_words": ["symmetric"],
    "model": "docstrings64",
    "n_bits": 32,
    "n_passages": 3100,
    "name": "docstrings",
    "newest": "numpy.linalg.svd",
    "on": "labels",
    "openapi": "/openapi.json",
    "p_value": 0.01,
    "passage": _TEXT,
    "payload": {"module": "numpy"},
    "pointer": "/limit",
    "queries": 87,
    "query": "eigenvalues",
    "query_code": "0f3a9c77",
    "query_ids": ["q1"],
    "ranking": "hybrid",
    "rankings": ["hamming", "bm25", "hybrid"],
    "reason": "the file is damaged",
    "relevance": "label",
    "request_id": "ae046aa619da5128",
    "service": "hummingbit",
    "served_ranking": "hybrid",
    "score": 0.82,
    "seed": 0,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "started": "2026-01-31T12:00:01.000+00:00",
    "status": "ready",
    "step": "training",
    "teacher": "static",
    "teacher_nearest": "numpy.linalg.eig",
    "term": "eigenvalues",
    "text": _TEXT,
    "ties_cut": False,
    "took_ms": 1.8,
    "value": "numpy.linalg",
    "version": "0.1.0",
    "when": "2026-01-31T12:00:00.000+00:00",
    "who": "ann",
    "words": ["eigenvalues"],
}
"""Values of fields by their names, where the type allows them."""
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def add_examples(schemas: dict[str, Any]) -> None:
    """Give each of `schemas`, the components of the description, an example."""
    for name, schema in schemas.items():
        schema["examples"] = [_example(name, schemas)]


def _example(name: str, schemas: dict[str, Any]) -> Any:
    for given in (EXAMPLES, FILTERS, RESPONSES):
        if name in given:
            return given[name]
    return _value(name, schemas[name], schemas)


def _value(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return a value of the field `name` that `schema` allows."""
    if "$ref" in schema:
        return _example(schema["$ref"].rpartition("/")[2], schemas)
    if "const" in schema:
        return schema["const"]
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    named = VALUES.get(name)
    if named is not None and any(_allows(choice, named) for choice in choices or [schema]):
        return named
    if chosen := [*schema.get("examples", ()), *schema.get("enum", ())]:
        return chosen[0]
    if choices:
        return _value(name, choices[0], schemas)
    return _of_type(name, schema, schemas)


def _allows(schema: dict[str, Any], value: Any) -> bool:
    """Tell whether `value` is of a simple type, or of a list of them, that `schema` names."""
    if "enum" in schema or "const" in schema:
        return value in (*schema.get("enum", ()), schema.get("const"))
    if not isinstance(value, TYPES.get(schema.get("type", ""), ())):
        return False
    if isinstance(value, list):
        return all(_allows(schema.get("items", {}), part) for part in value)
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        return all(_allows(schema["additionalProperties"], part) for part in value.values())
    return "properties" not in schema


def _of_type(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = schema["properties"]
        needed = schema.get("required") or [*fields][:3]
        return {field: _value(field, fields[field], schemas) for field in needed}
    if kind == "object":
        inner = schema.get("additionalProperties")
        keys = schema.get("propertyNames", {}).get("enum", ("P@100",))
        return {keys[0]: _value("", inner, schemas)} if isinstance(inner, dict) and inner else {}
    if kind == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        parts = parts * max(1, schema.get("minItems", 1) // len(parts))
        return [_value(name, part, schemas) for part in parts if part]
    least = schema.get("minimum", 0)
    scalars = {"integer": max(3, int(least)), "number": max(0.5, least), "boolean": True}
    if "maximum" in schema and kind in ("integer", "number"):
        return min(scalars[kind], schema["maximum"])
    return scalars.get(str(kind), name or "hybrid")
