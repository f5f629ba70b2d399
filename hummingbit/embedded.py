"""Collections in this process, without a service: numpy and pandas in and out."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from corpus.layout import Layout
from encoder.encoder import Encoder
from evaluation.evaluation_input import RelevanceSettings
from evaluation.metrics.metric_names import DEFAULT_METRICS
from evaluation.reports.collection_report import read_training_labels, run_job
from evaluation.reports.report import Report
from foundation.errors import InputError, counted
from hummingbit import inputs
from hummingbit.encoder_loading import install_encoder
from hummingbit.hits import Hits, hits_of
from hummingbit.sharing import NUMBERING, FolderKey, acquire, release, release_soon, shared_folder
from index.backend import MAX_K, CollectionBackend
from index.data_folder import DataFolder
from index.errors import DataFolderError
from index.kept_vectors import FLOAT32
from index.records import Hybrid, Query, Rescore, StoredDocument
from index.search.search_options import SearchOptions

if TYPE_CHECKING:
    import pandas as pd

    from hummingbit.hasher import SemanticHasher


class Collection:
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
        self.backend: CollectionBackend = folder.collection(name)
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
        encoder: SemanticHasher | str | Path | None = None,
        n_bits: int | None = None,
        keep_vectors: str = FLOAT32,
    ) -> Self:
        """Create the collection `name` in the data folder `folder`, which is created if missing.

        `encoder` is a fitted :class:`SemanticHasher`, an encoder's folder, or its name in the data
        folder. Without it, the collection takes codes of `n_bits`. `keep_vectors` is float32,
        float16, int8 or none. An existing collection is opened.

        Raises:
            InputError, CollectionExists: if a setting is invalid, or an existing one differs.
            ArtifactError: if `encoder` is not an intact encoder.
            DataFolderInUse: if another process is writing to the folder.
        """
        path = Path(folder)
        with shared_folder(path) as data_folder:
            installed = None if encoder is None else install_encoder(data_folder, encoder, name)
            create = partial(data_folder.create_collection, name, keep_vectors=keep_vectors)
            create(encoder=installed, n_bits=n_bits)
            return cls._open(path, name, writable=True)

    @classmethod
    def _open(cls, path: Path, name: str, *, writable: bool) -> Self:
        key = (path.resolve(), writable)
        folder = acquire(key)
        try:
            return cls(key, folder, name)
        except BaseException:
            release(key)
            raise

    @property
    def name(self) -> str:
        """The collection's name."""
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
    def encoder(self) -> Encoder | None:
        """The encoder; None if documents bring their codes."""
        return self.backend.encoder

    def __len__(self) -> int:
        return len(self.backend)

    def __repr__(self) -> str:
        name, size = self.backend.encoder_name, counted(len(self), "document")
        encoder = "codes" if name is None else f"encoder {name!r}"
        return f"<Collection {self.name!r}: {size}, {self.n_bits} bits, {encoder}>"

    def add(
        self,
        documents: Any,
        *,
        ids: Sequence[Any] | None = None,
        labels: Sequence[Any] | None = None,
        payloads: Sequence[Mapping[str, Any]] | None = None,
        id_field: str | None = None,
        text_field: str | Sequence[str] | None = None,
        label_field: str | None = None,
        payload_fields: Sequence[str] | None = None,
    ) -> int:
        """Add documents, and replace those with the same ids: all of them, or none on an error.

        `documents` are texts, vectors ``(N, D)``, mappings with the fields of a document (see
        :func:`corpus.document.parse_document`), or the rows of a pandas DataFrame. Its columns are
        named as in ``hummingbit index build``; the others go to the payload. Documents without an
        id are numbered, starting at the number of documents. Returns how many were written.

        Raises:
            DocumentError: if a document is invalid; it names the field.
            InputError: if the encoder does not take such documents, a DataFrame lacks a column,
                there are not as many ids, labels or payloads as documents, or a number is in use.
            StoreError: if the collection cannot be written, or is read-only.
        """
        layout = inputs.layout_of(id_field, text_field, label_field, payload_fields)
        parsed = inputs.documents_of(documents, layout, ids=ids, labels=labels, payloads=payloads)
        if all(has_id for _, has_id in parsed):
            return self.backend.upsert([document for document, _ in parsed]).upserted
        with NUMBERING:
            complete, numbers = inputs.number_documents(parsed, len(self))
            existing = sorted(self.backend.existing_ids(numbers))
            if existing:
                conflict = f"document {existing[0]!r} already exists"
                raise InputError("ids", f"are missing, and {conflict}; pass the documents' ids")
            return self.backend.upsert(complete).upserted

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the documents with these ids, and return how many existed."""
        return self.backend.delete(list(inputs.check_several("ids", ids))).deleted

    def get(self, id: str) -> StoredDocument | None:  # noqa: A002
        """Return a document by its id, or None if there is none."""
        return self.backend.get(id)

    def count(self, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those whose payload matches `filter`."""
        return self.backend.count(inputs.filter_of(filter))

    def search(
        self,
        query: Any = None,
        *,
        code: str | None = None,
        id: str | None = None,  # noqa: A002
        limit: int = 10,
        radius: int | None = None,
        ranking: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        offset: int = 0,
        codes_weight: float | None = None,
        rescore: str | Mapping[str, Any] | None = None,
    ) -> Hits:
        """Return the best hits for a text or vector, a packed `code` in hexadecimal, or an `id`.

        A mapping brings a `text` and a `vector`. The other arguments are those of
        ``POST /v1/collections/{name}/search``.

        InputError is raised if an argument is invalid; it names the argument.
        """
        if query is not None and (code, id) != (None, None):
            raise InputError("query", "cannot be combined with code or id; pass one of the three")
        parsed = Query(code=code, id=id) if query is None else inputs.query_of(query)
        return self.search_many(
            [parsed],
            limit=limit,
            radius=radius,
            ranking=ranking,
            filter=filter,
            offset=offset,
            codes_weight=codes_weight,
            rescore=rescore,
        )[0]

    def search_many(
        self,
        queries: Any,
        *,
        limit: int = 10,
        radius: int | None = None,
        ranking: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        offset: int = 0,
        codes_weight: float | None = None,
        rescore: str | Mapping[str, Any] | None = None,
    ) -> list[Hits]:
        """Return the hits of several texts or vectors, of one generation; see :meth:`search`."""
        limit, offset = inputs.whole_number("limit", limit), inputs.whole_number("offset", offset)
        radius = None if radius is None else inputs.whole_number("radius", radius)
        if not 1 <= limit <= MAX_K:
            raise InputError("limit", f"is {limit}; it must be from 1 to {MAX_K:,}")
        values = inputs.check_several("queries", queries)
        parsed = [one if isinstance(one, Query) else inputs.query_of(one) for one in values]
        condition = inputs.filter_of(filter)
        options = SearchOptions(
            limit,
            radius,
            ranking,
            condition,
            offset,
            with_payload=True,
            with_text=True,
            with_cursor=False,
            hybrid=None if codes_weight is None else Hybrid(codes=codes_weight),
            rescore=Rescore.of(rescore),
            with_relevance=True,
        )
        result = self.backend.find(parsed, options)
        return hits_of(result, self.backend, None if offset else condition)

    def evaluate(
        self,
        queries: Any,
        labels: Sequence[Any] | None = None,
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        ids: Sequence[Any] | None = None,
        metrics: Iterable[str] = DEFAULT_METRICS,
        label_field: str = "label",
        exclude_self: bool = False,
    ) -> Report:
        """Evaluate the collection with queries, as ``hummingbit evaluate`` does.

        `queries` have the form of documents in :meth:`add`. A document is relevant if it shares a
        label with the query or, with `qrels` (grades by query id and document id), by its grade.
        Each metric of the report has a value as served, and a tie-averaged one, `expected`.

        Raises:
            MetricError, EvaluationError: if a metric, the labels or the judgements are invalid.
            InputError: if the encoder does not take such queries.
        """
        parsed = inputs.documents_of(queries, Layout(), ids=ids, labels=labels)
        settings = RelevanceSettings(label_field, qrels=qrels, exclude_self=exclude_self)
        known = read_training_labels(self._folder, self.backend)
        return run_job(self.backend, [one for one, _ in parsed], metrics, settings, known).report

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each document: id, text, code, and a column for each payload field."""
        documents = self.backend.all_documents()
        rows = [{**d.payload, "id": d.id, "text": d.text, "code": d.code} for d in documents]
        return inputs.data_frame(rows, ["id", "text", "code"])

    def close(self) -> None:
        """Close the collection. The last open collection of a data folder closes the folder too."""
        if self._release.detach() is not None:
            release(self._key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
