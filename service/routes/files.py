"""Files of unknown layout over REST: what they hold, and a job that stores their documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, NamedTuple

from anyio import to_thread
from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from hummingbit.corpus.document import Document
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.survey import Survey, survey
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.catalog import shipped_encoder
from hummingbit.index.first_reading import LONG_SHARE, Corpus, how_to_read, read_corpus
from hummingbit.service.http.bodies import check_media_type, save_body
from hummingbit.service.http.keys import Role, requires
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.http.routing import Router
from hummingbit.service.jobs.bulk import INPUT, BulkOptions
from hummingbit.service.routes.dependencies import CollectionOf, Limits, LongReads, render
from hummingbit.service.routes.jobs import ACCEPTED, SubmitOf, accepted_response
from hummingbit.service.schemas.files import FileDocument, FileSurvey
from hummingbit.service.settings import Settings

router = Router(prefix="/v1", tags=["documents"])
MEDIA_TYPE = "application/octet-stream"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_BODY = {"required": True, "content": {MEDIA_TYPE: _BINARY}}
# Read by lines. A compressed file or one of columns may be a thousand times as large when read.
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".md")
SHOWN = 3
MAX_TEXT = 500
MAX_NAME = 255
# Nothing of a request becomes a path. Ids of documents that have none begin with it, too.
STEM = "document"


class Fields(NamedTuple):
    """The name of a file, and the fields that a person chose."""

    name: str
    layout: Layout


def _fields(
    filename: Annotated[
        str,
        Query(
            max_length=MAX_NAME,
            description=f"The file's name, which ends with one of {', '.join(SUFFIXES)}.",
            examples=["articles.csv"],
        ),
    ],
    text_field: Annotated[
        list[str] | None, Query(description="The fields of the text, in place of those found.")
    ] = None,
    label_field: Annotated[
        str | None, Query(description="The field of the labels, in place of the one found.")
    ] = None,
    id_field: Annotated[
        str | None, Query(description="The field of the ids, in place of the one found.")
    ] = None,
) -> Fields:
    layout = Layout(id_field=id_field, text_fields=tuple(text_field or ()), label_field=label_field)
    return Fields(filename, layout)


FieldsOf = Annotated[Fields, Depends(_fields)]


def _check_type(request: Request) -> None:
    check_media_type(request, [MEDIA_TYPE])


# What a body is comes before what its parameters are.
_TYPED = [Depends(_check_type)]


@router.post(
    "/files:survey",
    response_model=FileSurvey,
    dependencies=_TYPED,
    **requires(Role.WRITE, body=_BODY),
    summary="Find what a file holds",
)
async def survey_file(
    *, request: Request, fields: FieldsOf, submit: SubmitOf, long_reads: LongReads
) -> Response:
    """Find the text, labels and ids in a file of unknown layout, and the language of its texts.

    Nothing is stored. A file is read as `hummingbit quickstart` reads it.
    """
    async with submit.drafting() as draft:
        path = _path_for(draft, fields.name)
        await save_body(request, path)
        found = await to_thread.run_sync(_found_in, path, fields, limiter=long_reads)
    return render(found)


@router.post(
    "/collections/{name}/documents:file",
    dependencies=_TYPED,
    **ACCEPTED,
    **requires(Role.WRITE, body=_BODY),
    summary="Upsert the documents of a file",
)
async def upload_file(
    *,
    request: Request,
    collection: CollectionOf,
    fields: FieldsOf,
    submit: SubmitOf,
    limits: Limits,
    long_reads: LongReads,
) -> Response:
    """Upsert the documents of a file of unknown layout, as a job.

    It is read as by ``/v1/files:survey``. Lines that are no documents are left out, and so are
    documents without a text.
    """
    async with submit.drafting() as draft:
        path = _path_for(draft, fields.name)
        await save_body(request, path)
        await to_thread.run_sync(
            _write_lines, path, fields, draft / INPUT, limits, limiter=long_reads
        )
        path.unlink()
        spec = asdict(BulkOptions())
        job = await run_in_threadpool(submit, "bulk", collection.name, spec, draft=draft)
    return accepted_response(job)


def _path_for(draft: Path, name: str) -> Path:
    """Return where to save a file of this name: its suffix says how it is read."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        message = f"filename is {name[:80]!r}; it must end with one of {known}"
        raise ProblemError(422, "invalid_request", message)
    return draft / f"{STEM}{suffix}"


@contextmanager
def _naming(path: Path, fields: Fields) -> Iterator[None]:
    """Turn an error of reading into a problem that names the file as the client does."""
    try:
        yield
    except ReadError as error:
        message = str(error).replace(str(path), fields.name)
        raise ProblemError(422, "invalid_request", message) from error


def _read(path: Path, fields: Fields) -> tuple[Survey, Corpus]:
    found = survey(path, fields.layout)
    return found, read_corpus(path, found.layout, lambda _: None)


@cache
def _shipped() -> Encoder | None:
    folder = shipped_encoder()
    return None if folder is None else load_encoder(folder)


def _found_in(path: Path, fields: Fields) -> FileSurvey:
    with _naming(path, fields):
        found, corpus = _read(path, fields)
    reading = how_to_read([document.text or "" for document in corpus.sample], _shipped())
    layout, bad = found.layout, corpus.bad_lines
    return FileSurvey(
        documents=corpus.count,
        skipped=corpus.n_bad_lines,
        first_skipped=str(bad[0]).replace(str(path), fields.name) if bad else None,
        without_text=corpus.n_without_text,
        repeats=corpus.repeats,
        fields=[name for name in found.names if name],
        text_fields=list(layout.text_fields) or ["text"],
        label_field=(layout.label_field or "label") if corpus.labels else None,
        label_candidates=list(found.label_candidates),
        labels=len(corpus.labels),
        labelled=corpus.labels.total(),
        id_field=layout.id_field or ("id" if "id" in found.names else None),
        language=reading.language,
        passages=corpus.long_share >= LONG_SHARE,
        has_codes=reading.has_codes,
        codes=reading.codes,
        sample=[
            FileDocument(id=one.id, text=(one.text or "")[:MAX_TEXT], labels=list(one.labels))
            for one in corpus.sample[:SHOWN]
        ],
    )


def _write_lines(path: Path, fields: Fields, lines: Path, limits: Settings) -> None:
    """Write the documents of a file as the lines of a bulk request.

    Raises:
        ProblemError: if it cannot be read, holds no document, or its lines are too large.
    """
    with _naming(path, fields), lines.open("w", encoding="utf-8") as file:
        _, corpus = _read(path, fields)
        if not corpus.count:
            raise ProblemError(422, "invalid_request", f"{fields.name}: has no document with text")
        for document in corpus.stored_documents():
            check_cancelled()
            file.write(json.dumps(_line_of(document), ensure_ascii=False) + "\n")
            if file.tell() > limits.max_bulk_body_bytes:
                limit = f"{limits.max_bulk_body_bytes:,} bytes"
                message = f"{fields.name}: its documents have more than {limit}, the limit"
                raise ProblemError(413, "body_too_large", message)
        file.flush()
        os.fsync(file.fileno())


def _line_of(document: Document) -> dict[str, object]:
    vector = None if document.vector is None else document.vector.tolist()
    line = {
        "text": document.text,
        "vector": vector,
        "code": document.code,
        "labels": list(document.labels) or None,
        "payload": document.payload or None,
    }
    return {"id": document.id, **{name: value for name, value in line.items() if value is not None}}
