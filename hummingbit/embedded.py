"""Collections in this process, without a service: numpy and pandas in and out."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from hummingbit import inputs
from hummingbit.clients.calls import UNSET, RankingOptions, RecommendationOptions, Unset
from hummingbit.corpus.document import Document
from hummingbit.corpus.layout import Layout
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder_loading import install_encoder
from hummingbit.foundation.errors import InputError, counted
from hummingbit.foundation.processes import Inherited, Process, keep, note
from hummingbit.index.backend import AnyCollection, CollectionBackend
from hummingbit.index.catalog import SIGN, encoder_by_dimensions
from hummingbit.index.collection import pages_of
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import CollectionExists, DataFolderError, StoreClosed
from hummingbit.index.facets import FacetResult, facet_to_json, parse_facets, parse_sort
from hummingbit.index.filters import Filter
from hummingbit.index.highlights import excerpt
from hummingbit.index.names import AVERAGE_VECTOR, FLOAT32, MAX_K
from hummingbit.index.options import SearchOptions
from hummingbit.index.passages import Passages
from hummingbit.index.payloads import check_one_given
from hummingbit.index.query_syntax import both
from hummingbit.index.records import StoredDocument
from hummingbit.index.search import Hit, QueryResult, SearchResult, explain_no_groups, with_warnings
from hummingbit.inputs import data_frame

if TYPE_CHECKING:
    import pandas as pd

    from hummingbit.evaluation.rankings import RelevanceSettings
    from hummingbit.evaluation.report import Report
    from hummingbit.hasher import SemanticHasher


# Data folders shared by the collections of a process: each is opened only once.


FolderKey = tuple[Path, bool, int]
"""The path of a data folder, whether it is open for writing, and the process that opened it."""


@dataclass(slots=True)
class _SharedFolder:
    """An open data folder, and how many collections of this process use it."""

    folder: DataFolder
    users: int = 0


_OPEN: dict[FolderKey, _SharedFolder] = {}
_OPENING = threading.Lock()

NUMBERING = threading.Lock()
"""Held while documents are numbered and written, so that no two threads use the same number."""


def acquire(key: FolderKey) -> DataFolder:
    """Open a data folder, or share the one that this process has open."""
    with _OPENING:
        if key not in _OPEN:
            path, writable, _ = key
            _OPEN[key] = _SharedFolder(DataFolder(path, writable=writable, indexed=False))
        _OPEN[key].users += 1
        return _OPEN[key].folder


def release(key: FolderKey) -> None:
    """Release a data folder; it is closed once nothing uses it."""
    with _OPENING:
        if key not in _OPEN:
            return  # this process was forked, and the folder is its parent's
        _OPEN[key].users -= 1
        if not _OPEN[key].users:
            _OPEN.pop(key).folder.close()


class _OfParent(Inherited):
    """The folders that are open here, in a process that is forked."""

    def leave_to_parent(self) -> None:
        """Forget them, so that the process can open them again, with locks of its own."""
        global NUMBERING, _OPENING
        keep(*_OPEN.values())
        _OPEN.clear()
        NUMBERING, _OPENING = threading.Lock(), threading.Lock()


_OF_PARENT = _OfParent()
note(_OF_PARENT)


def release_soon(key: FolderKey) -> None:
    """Release the data folder of a collection that was garbage-collected.

    The garbage collector may call this at any moment. Another thread does the work, because this
    one may hold the lock, or be in the middle of an operation on the folder.
    """
    threading.Thread(target=release, args=(key,), name="release").start()


@contextmanager
def shared_folder(path: Path) -> Iterator[DataFolder]:
    """Yield a data folder, open for writing, and release it at the end of the block."""
    key = (path.resolve(), True, os.getpid())
    folder = acquire(key)
    try:
        yield folder
    finally:
        release(key)


# The hits of a search in this process.


REPR_TEXT = 60
"""How many characters of a hit's text its line has."""


@dataclass(eq=False, repr=False)
class Hits(QueryResult, Sequence[Hit]):
    """The hits of one query, best first."""

    _hits: list[Hit]

    @overload
    def __getitem__(self, position: int) -> Hit: ...

    @overload
    def __getitem__(self, position: slice) -> list[Hit]: ...

    def __getitem__(self, position: int | slice) -> Hit | list[Hit]:
        return self._hits[position]

    def __len__(self) -> int:
        return len(self._hits)

    def __repr__(self) -> str:
        """Return a line for each hit, for interactive use."""
        lines = [*map(_line, self._hits)]
        for group in self.groups:
            lines += [f"{group.id}:", *map(_line, group.hits)]
        return "\n".join(lines or ["no hits", *self.warnings])

    @property
    def ids(self) -> list[str]:
        """The ids of the documents found."""
        return [hit.id for hit in self._hits]

    @property
    def distances(self) -> npt.NDArray[np.int64]:
        """Hamming distances from the query's code, ``int64[k]``; -1 if the query has only words."""
        distances = [-1 if hit.distance is None else hit.distance for hit in self._hits]
        return np.array(distances, dtype=np.int64)

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """The scores of the ranking, ``float64[k]``; higher is better."""
        return np.array([hit.score for hit in self._hits], dtype=np.float64)

    @property
    def confidences(self) -> npt.NDArray[np.float64]:
        """The probabilities that the hits answer the query, ``float64[k]``, in their order.

        They compare between queries and rankings; NaN for recommendations, which have none.
        """
        return np.array([hit.confidence for hit in self._hits], dtype=np.float64)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each hit: id, distance, score, text, and one column a payload field."""
        rows = [
            {
                **(hit.payload or {}),
                "id": hit.id,
                "distance": hit.distance,
                "score": hit.score,
                "text": hit.text,
            }
            for hit in self._hits
        ]
        return data_frame(rows, ["id", "distance", "score", "text"])


def hits_of(
    result: SearchResult,
    collection: CollectionBackend,
    filter_: Filter | None,
    group_by: str | None,
) -> list[Hits]:
    """Return the hits of each query; if none has a hit, with why the filter or groups have none."""
    warnings: list[str] = []
    if not any(result.hits) and not any(result.groups or ()):
        warnings += collection.explain_no_hits(both(filter_, *result.queries.conditions))
        warnings += explain_no_groups(collection, group_by, None)
    told = [vars(result.of_query(position)) for position in range(len(result.hits))]
    return [
        Hits(hits, **with_warnings(some, warnings))
        for hits, some in zip(result.hits, told, strict=True)
    ]


def _line(hit: Hit) -> str:
    beginning = "" if hit.text is None else excerpt(hit.text, REPR_TEXT)
    return f"{hit.score:9.3f}  {hit.id}  {beginning}".rstrip()


# What collections of this process and of a service have in common.


class OpenCollection(ABC):
    """A collection of this process or of a service, with the methods that both have.

    Methods of a service's collection also raise :class:`hummingbit.ServiceError` if the service
    cannot be reached, refuses or fails.
    """

    @property
    @abstractmethod
    def backend(self) -> AnyCollection:
        """The collection in its data folder, or the requests to the service."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The path of the data folder, or the address of the service."""

    @abstractmethod
    def _write(self, documents: Sequence[Document]) -> tuple[int, int]:
        """Write documents; return how many were written, and how many replaced another.

        The second is None if that cannot be told.
        """

    def _write_numbered(self, parsed: Sequence[inputs.ParsedDocument]) -> tuple[int, int]:
        """Number the documents without an id and write all, as :meth:`_write` does.

        Raises:
            InputError: if a number is in use.
        """
        complete, numbers = inputs.number_documents(parsed, len(self))
        if existing := self.existing_ids(numbers):
            conflict = f"document {min(existing)!r} already exists"
            raise InputError("ids", f"are missing, and {conflict}; pass the documents' ids")
        return self._write(complete)

    @abstractmethod
    def _evaluate(
        self,
        queries: Sequence[Document],
        metrics: Iterable[str] | None,
        settings: RelevanceSettings,
        rankings: Sequence[str] | None,
    ) -> Report:
        """Evaluate the collection and return the report."""

    @abstractmethod
    def close(self) -> None:
        """Close the collection."""

    @property
    def name(self) -> str:
        """The collection's name, which an alias may stand for."""
        return self.backend.name

    @property
    def n_bits(self) -> int:
        """The number of bits in a code."""
        return self.backend.n_bits

    @property
    def generation(self) -> int:
        """The number of writes so far that changed the collection."""
        return self.backend.generation

    @property
    def ranking(self) -> str:
        """The ranking of searches that name none."""
        return self.backend.ranking

    @property
    def encoder_kind(self) -> str | None:
        """What the encoder reads: text, vector or matrix; None if documents bring their codes."""
        return self.backend.encoder_kind

    def __len__(self) -> int:
        return len(self.backend)

    def add(
        self,
        documents: inputs.Documents,
        *,
        ids: Iterable[Any] | None = None,
        labels: Iterable[Any] | None = None,
        payloads: Iterable[Mapping[str, Any]] | None = None,
        id_field: str | None = None,
        text_field: str | Sequence[str] | None = None,
        label_field: str | None = None,
        payload_fields: Sequence[str] | None = None,
        on_repeated_id: inputs.OnRepeatedId = "raise",
        on_missing_id: inputs.OnMissingId = "raise",
        expires_at: str | float | datetime | None = None,
        ttl_seconds: float | None = None,
    ) -> inputs.Added:
        """Add documents, and replace those with the same ids: all of them, or none on an error.

        `documents` are texts, vectors ``(N, D)``, mappings with the fields of a document (see
        :func:`hummingbit.corpus.document.parse_document`), or the rows of a table of pandas, polars
        or Arrow. Its columns are named as in ``hummingbit index build``; the others go to the
        payload. Ids and labels become texts: 7 and 7.0 are "7". Without
        `ids` and `id_field`, documents without an id are numbered, starting at the number of
        documents. If two documents have one id, nothing is written, unless `on_repeated_id` is
        "last"; if some have no id of `ids` or `id_field`, nothing is, unless `on_missing_id` is
        "number". The documents expire at `expires_at`, a time of ISO 8601 or a datetime, or after
        `ttl_seconds`; from then on nothing returns them. Returns how many were written, with what
        else became of the documents
        (:class:`hummingbit.inputs.Added`).

        Raises:
            DocumentError: if a document is invalid; it names the field.
            InputError: if the encoder does not take such documents, a table lacks a column,
                there are not as many ids, labels or payloads as documents, an id repeats or is
                missing, or a number is in use.
            StoreError: if the collection cannot be written, or is read-only.
        """
        layout = inputs.layout_of(id_field, text_field, label_field, payload_fields)
        parsed = inputs.documents_of(documents, layout, ids=ids, labels=labels, payloads=payloads)
        parsed = inputs.expiring(parsed, expires_at, ttl_seconds)
        repeated = inputs.check_ids(
            parsed,
            id_field=id_field,
            are_given=ids is not None or id_field is not None,
            on_repeated_id=on_repeated_id,
            on_missing_id=on_missing_id,
        )
        if all(has_id for _, has_id in parsed):
            written, replaced = self._write([document for document, _ in parsed])
            return inputs.Added(written, replaced=replaced, repeated=repeated)
        with NUMBERING:
            written, replaced = self._write_numbered(parsed)
        numbered = sum(not has_id for _, has_id in parsed)
        return inputs.Added(written, replaced=replaced, repeated=repeated, numbered=numbered)

    def delete(
        self,
        ids: inputs.Ids | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> int:
        """Delete the documents with these ids, or whose payload matches `filter`.

        Returns how many there were.

        Raises:
            InputError: unless exactly one of the two is given, or if the filter is invalid.
        """
        check_one_given(ids, filter)
        condition = inputs.filter_of(filter)
        if condition is not None:
            return self.backend.delete_where(condition).deleted
        return self.backend.delete(inputs.check_ids_of(ids)).deleted

    def update_payload(
        self,
        *,
        ids: inputs.Ids | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        set: Mapping[str, Any] | None = None,  # noqa: A002
        merge: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        overwrite: Mapping[str, Any] | None = None,
        expires_at: str | float | datetime | None = None,
        ttl_seconds: float | None = None,
        if_generation: int | None = None,
    ) -> int:
        """Change the payloads of documents with these `ids`, or that match `filter`.

        Texts, codes and the order of documents stay. `set` gives keys new values, `merge` merges
        objects into objects and removes keys whose value is None (RFC 7396), `remove` removes
        fields, and `overwrite` replaces the whole payload. `expires_at` or `ttl_seconds` set when
        the documents expire; removing the field `_expires_at` keeps them. Returns how many payloads
        changed.

        Raises:
            InputError: unless exactly one of `ids` and `filter` is given, or if a value is invalid.
            GenerationChanged: if the collection is at another generation than `if_generation`.
        """
        update = inputs.payload_update(
            ids=ids,
            filter=filter,
            set=set,
            merge=merge,
            remove=remove,
            overwrite=overwrite,
            expires_at=expires_at,
            ttl_seconds=ttl_seconds,
        )
        return self.backend.update_payloads([update], if_generation).updated

    def get(self, id: str | int) -> StoredDocument | None:  # noqa: A002
        """Return a document by its id, or None if there is none."""
        return self.backend.get(inputs.check_id("id", id))

    def get_many(self, ids: inputs.Ids) -> list[StoredDocument]:
        """Return the documents with these ids, in their order; unknown ids are left out."""
        documents = self.backend.get_many([*dict.fromkeys(inputs.check_ids_of(ids))])
        return [stored for stored in documents if stored is not None]

    def existing_ids(self, ids: inputs.Ids) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return {stored.id for stored in self.get_many(ids)}

    def documents(
        self,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        *,
        sort: Sequence[str | Mapping[str, Any]] | str = (),
    ) -> Iterator[StoredDocument]:
        """Yield all documents, or those whose payload matches `filter`, in their order.

        With `sort`, they are in the order of fields, such as ``["year:desc", "title"]``; documents
        without a field come last.
        """
        for page in pages_of(self.backend, inputs.filter_of(filter), parse_sort(sort)):
            yield from page

    def facets(
        self,
        facets: Sequence[str | Mapping[str, Any]] | str,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> list[FacetResult]:
        """Count values of payload fields over all documents, or those that match `filter`, exactly.

        A facet is the name of a field, whose most frequent values are counted, or a mapping with
        `field` and `limit`, `interval`, `calendar_interval` or `ranges`
        (:class:`hummingbit.index.facets.Facet`).

        Raises:
            InputError: if a facet or the filter is invalid.
        """
        parsed = parse_facets(inputs.plain("facets", facets))
        body = {"facets": [*map(facet_to_json, parsed)]}
        counted = self.backend.ask("facets", body, inputs.filter_of(filter))["facets"]
        return [FacetResult(**facet) for facet in counted]

    def count(self, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those whose payload matches `filter`."""
        return self.backend.count(inputs.filter_of(filter))

    def complete(self, text: str, limit: int = 10) -> list[str]:
        """Return queries that begin like `text`, with its last word completed.

        Words that most documents have come first.

        Raises:
            InputError: if the limit is invalid, or the text ends with no word of two characters.
        """
        return self.backend.complete(text, inputs.whole_number("limit", limit))

    def evaluate(
        self,
        queries: inputs.Documents,
        labels: Iterable[Any] | None = None,
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        ids: Iterable[Any] | None = None,
        metrics: Iterable[str] | None = None,
        rankings: Iterable[str] | None = None,
        label_field: str = "label",
        exclude_self: bool = False,
        only_labelled: bool = False,
    ) -> Report:
        """Evaluate the collection with queries, as ``hummingbit evaluate`` does.

        `queries` have the form of documents in :meth:`add`. A document is relevant if it shares a
        label with the query or, with `qrels` (grades by query id and document id), by its grade.
        By default, the `rankings` are that of a search that names none, and ``hamming``. Queries
        that the encoder learned from are left out; if it learned from all, `warning` says so.
        Each metric of the report has a value as served, and a tie-averaged one, `expected`.

        Raises:
            MetricError, EvaluationError: if a metric, the labels or the judgements are invalid.
            InputError: if the encoder does not take such queries.
            ServiceError: from a service, if any of this is wrong.
        """
        # Imported here and below, as searches need neither scipy nor pydantic.
        from hummingbit.evaluation.rankings import RelevanceSettings  # noqa: PLC0415

        parsed = inputs.documents_of(queries, Layout(), ids=ids, labels=labels)
        settings = RelevanceSettings(
            label_field, qrels=qrels, exclude_self=exclude_self, only_labelled=only_labelled
        )
        documents = [document for document, _ in parsed]
        named = None if rankings is None else [*rankings]
        return self._evaluate(documents, metrics, settings, named)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Collections in this process, without a service: numpy and pandas in and out.


class LocalSearchOptions(RankingOptions, total=False):
    """The options of a search in this process; `codes_weight` is the `codes` of `hybrid`."""

    codes_weight: float | None
    cursor: str | None
    with_cursor: bool | None
    with_code: bool | None


def _search_options(given: LocalSearchOptions) -> SearchOptions:
    """Return the options of a search in this process.

    Raises:
        TypeError: if there is no such option.
        InputError: if one is invalid.
    """
    unknown = given.keys() - LocalSearchOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"search() has no argument {min(unknown)!r}")
    fields: dict[str, Any] = {"with_payload": True}
    fields |= {name: inputs.plain(name, value) for name, value in given.items()}
    for name in ("limit", "radius", "offset", "group_size", "facet_depth"):
        if fields.get(name) is not None:
            fields[name] = inputs.whole_number(name, fields[name])
    weight = fields.pop("codes_weight", None)
    if weight is not None:
        fields["hybrid"] = {**(fields.get("hybrid") or {}), "codes": weight}
    options = SearchOptions.of_request(fields)
    if not 1 <= options.k <= MAX_K:
        raise InputError("limit", f"is {options.k}; it must be from 1 to {MAX_K:,}")
    return replace(options, with_text=True, with_confidence=True)


class Collection(OpenCollection):
    """A collection of a data folder, opened in this process. All methods are thread-safe.

    The command line and the service open the same collections. Only one process at a time can write
    to a data folder. While a service does, use :class:`hummingbit.Client` or open it read-only.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from hummingbit import Collection, SemanticHasher
    >>> texts = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"]
    >>> hasher = SemanticHasher(n_bits=16, method="lsh").fit(texts * 10)
    >>> with Collection.create(mkdtemp(), "demo", encoder=hasher) as collection:
    ...     written = collection.add(texts, ids=["a", "b", "c", "d"])
    ...     hits = collection.search("cats", limit=2)
    >>> hits.ids[0]
    'b'
    """

    def __init__(self, key: FolderKey, folder: DataFolder, name: str) -> None:
        self._key = key
        self._folder = folder
        self._process = Process(f"collection {name!r}")
        self._backend: CollectionBackend = folder.collection(name)
        self._release = weakref.finalize(self, release_soon, key)
        self._release.atexit = False  # the end of the process does not release the folder

    @classmethod
    def open(cls, folder: str | Path, name: str, *, read_only: bool = False) -> Self:
        """Open the collection `name` of the data folder `folder`.

        Raises:
            UnknownCollection: if it does not exist.
            DataFolderInUse: unless `read_only`, if another process is writing to the folder.
            DataFolderError: if there is no such folder, or it cannot be read.
        """
        if not (path := Path(folder)).exists():  # a misspelt name would become a folder
            raise DataFolderError(f"{path}: No such file or directory")
        return cls._open(path, name, writable=not read_only)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        name: str,
        *,
        encoder: SemanticHasher | str | Path | Unset | None = UNSET,
        n_bits: int | None = None,
        dimensions: int | None = None,
        keep_vectors: str = FLOAT32,
        passages: Mapping[str, int] | Literal["auto"] | bool | None = None,
        language: str | None = None,
        exist_ok: bool = False,
    ) -> Self:
        """Create the collection `name` in the data folder `folder`, which is created if missing.

        `encoder` is a fitted :class:`SemanticHasher`, an encoder's folder, its name in the data
        folder, or "sign", whose bits are the signs of vectors of `dimensions` numbers. With
        `n_bits` instead, documents bring codes. If neither is given, the encoder is that of the
        package ``hummingbit-models``. With the encoder None, or if that package is not installed,
        documents are searched by words alone. `keep_vectors` is float32, float16, int8 or none.
        With `passages`, texts are split (:meth:`hummingbit.index.passages.Passages.of`). The
        `language` for searches by words, such as ``"german"``, is found without one. With
        `exist_ok`, a collection with the same name and settings is opened.

        Raises:
            InputError: if a setting is invalid.
            CollectionExists: if it exists, unless `exist_ok` and its settings are the same.
            ArtifactError: if `encoder` is not an intact encoder.
            DataFolderInUse: if another process is writing to the folder.
        """
        path = Path(folder)
        if encoder is None and n_bits is None:
            n_bits = 0
        encoder = None if isinstance(encoder, Unset) else encoder
        if dimensions is not None or encoder == SIGN:
            encoder = encoder_by_dimensions(str(encoder), inputs.plain("dimensions", dimensions))
        with shared_folder(path) as data_folder:
            if not exist_ok and name in data_folder.collections():
                hint = "open it with Collection.open, or pass exist_ok=True"
                raise CollectionExists(f"collection {name!r} exists in {path}; {hint}")
            installed = None if encoder is None else install_encoder(data_folder, encoder, name)
            data_folder.create_collection(
                name,
                encoder=installed,
                n_bits=inputs.plain("n_bits", n_bits),
                keep_vectors=keep_vectors,
                passages=Passages.of(inputs.plain("passages", passages)),
                language=language,
            )
            return cls._open(path, name, writable=True)

    @classmethod
    def _open(cls, path: Path, name: str, *, writable: bool) -> Self:
        key = (path.resolve(), writable, os.getpid())
        folder = acquire(key)
        try:
            return cls(key, folder, name)
        except BaseException:
            release(key)
            raise

    @property
    def backend(self) -> CollectionBackend:
        """The collection in its data folder.

        Raises:
            StoreClosed: once this is closed, as every method then does.
            ForkedError: in a process that was forked since this was opened.
        """
        self._process.check()
        if not self._release.alive:
            raise StoreClosed(f"collection {self._backend.name!r} is closed; open it again")
        return self._backend

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a collection cannot be sent to another process; open it there, with"
            " Collection.open(folder, name, read_only=True), or use a service and Client"
        )

    @property
    def folder(self) -> Path:
        """The path of the data folder."""
        return self._key[0]

    @property
    def location(self) -> str:
        """The path of the data folder, as text."""
        return str(self.folder)

    @property
    def encoder(self) -> Encoder | None:
        """The encoder; None if documents bring their codes."""
        return self.backend.encoder

    def __repr__(self) -> str:
        if not self._release.alive:
            return f"<Collection {self._backend.name!r}: closed>"
        name, size = self.backend.encoder_name, counted(len(self), "document")
        encoder = "codes" if name is None else f"encoder {name!r}"
        codes = f"{self.n_bits} bits, {encoder}" if self.n_bits else "words alone"
        return f"<Collection {self.name!r}: {size}, {codes}>"

    def existing_ids(self, ids: inputs.Ids) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return self.backend.existing_ids(inputs.check_ids_of(ids))

    def _write(self, documents: Sequence[Document]) -> tuple[int, int]:
        result = self.backend.upsert(documents)
        return result.upserted, result.replaced

    def search(
        self,
        query: inputs.QueryContent | None = None,
        *,
        vector: inputs.VectorContent | None = None,
        code: inputs.CodeContent | None = None,
        id: str | int | None = None,  # noqa: A002
        **options: Unpack[LocalSearchOptions],
    ) -> Hits:
        """Return the best hits for a text or vector, a packed `code`, or an `id`.

        A mapping brings several of `text`, `vector` and `code`; a `vector` or a `code` may also go
        with a text. A code is hexadecimal, or bytes in a named format
        (:func:`hummingbit.corpus.document.parse_code`). The `options` are those of ``POST
        /v1/collections/{name}/search`` that :class:`LocalSearchOptions` names.

        InputError is raised if an argument is invalid; it names the argument.
        """
        parsed = inputs.parse_query(query, vector=vector, code=code, id_=id)
        return self.search_many([parsed], **options)[0]

    def search_many(
        self, queries: Iterable[inputs.QueryContent], **options: Unpack[LocalSearchOptions]
    ) -> list[Hits]:
        """Return the hits of several texts or vectors, of one generation; see :meth:`search`."""
        search = _search_options(options)
        values = inputs.check_several("queries", queries)
        parsed = [inputs.query_of(value) for value in values]
        result = self.backend.find(parsed, search)
        filter_ = None if search.offset else search.filter
        return hits_of(result, self.backend, filter_, search.group_by)

    def recommend(
        self,
        positive: Iterable[inputs.Example],
        negative: Iterable[inputs.Example] = (),
        *,
        strategy: str = AVERAGE_VECTOR,
        **options: Unpack[RecommendationOptions],
    ) -> Hits:
        """Return the documents that are like `positive` examples and unlike `negative` ones.

        An example is the id of a document, a vector, or a mapping of `id`, `text`, `vector` or
        `code`. Documents that are examples are not among the hits. The strategies,
        ``average_vector`` and ``best_score``, compare codes as
        :mod:`hummingbit.index.recommendations` says.

        Raises:
            InputError: if an example or an option is invalid; it names it.
            UnknownDocument: if no document has the id of an example.
        """
        fields = cast("LocalSearchOptions", options)
        if unknown := options.keys() - RecommendationOptions.__annotations__.keys():
            raise TypeError(f"recommend() has no argument {min(unknown)!r}")
        like = inputs.examples_of("positive", positive)
        unlike = inputs.examples_of("negative", negative)
        search = replace(_search_options(fields), with_confidence=False)
        result = self.backend.recommend(like, unlike, search, strategy)
        filter_ = None if search.offset else search.filter
        return hits_of(result, self.backend, filter_, search.group_by)[0]

    def _evaluate(
        self,
        queries: Sequence[Document],
        metrics: Iterable[str] | None,
        settings: RelevanceSettings,
        rankings: Sequence[str] | None,
    ) -> Report:
        from hummingbit.evaluation.report import read_training_labels, run_job  # noqa: PLC0415

        known = read_training_labels(self._folder, self.backend)
        return run_job(self.backend, queries, metrics, settings, known, rankings=rankings).report

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each document: id, text, code, and a column for each payload field."""
        documents = self.backend.all_documents()
        rows = [{**d.payload, "id": d.id, "text": d.text, "code": d.code} for d in documents]
        return inputs.data_frame(rows, ["id", "text", "code"])

    def close(self) -> None:
        """Close the collection. The last open collection of a data folder closes the folder too."""
        if self._release.detach() is not None:
            release(self._key)
