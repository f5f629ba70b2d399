"""The base of all collections: settings, checks, and the beginning of a search."""

# Requests and options use the name `filter`; the builtin is not needed here.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpus.document import Document
from corpus.tables import FieldType
from encoder.codes import Codes
from encoder.encoder import Encoder
from foundation.errors import InputError
from index.backend import MAX_K
from index.errors import EncoderMismatch
from index.filters import Filter, filter_to_json
from index.payload_labels import labels_of
from index.rankings.protocol import HAMMING
from index.records import CodedPayloads, Hybrid, Queries, Rescore, SearchResult
from index.schema import Description
from index.search.search_options import SearchOptions


class CollectionBase(ABC):
    """A collection with the given description; `encoder` made its codes."""

    def __init__(self, description: Description, encoder: Encoder | None, incarnation: str) -> None:
        """Check the encoder against the description.

        `incarnation` distinguishes the collection from earlier and later ones of the same name.
        Rows, and so cursors, are valid within one incarnation only.

        Raises:
            EncoderMismatch: if the collection was made with another encoder, or without one.
        """
        check_encoder(description, encoder)
        self.description = description
        self.name: str = description.name
        self.incarnation = incarnation
        self.n_bits: int = description.n_bits
        self.encoder: Encoder | None = encoder
        self.is_read_by_model: bool = encoder is not None and encoder.is_slow
        self.encoder_name: str | None = description.encoder_name
        self.encoder_fingerprint: str | None = description.encoder_fingerprint
        self.engine_setting: str = description.engine
        self.keep_vectors: str = description.keep_vectors
        self.ranking: str = HAMMING

    @abstractmethod
    def coded_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """See :meth:`index.backend.CollectionBackend.coded_payloads`."""

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """See :meth:`index.backend.CollectionBackend.labelled_codes`."""
        coded = self.coded_payloads(with_given_labels=False)
        return coded.codes, [labels_of(payload, label_field) for payload in coded.payloads]

    def search(
        self,
        queries: Queries,
        k: int,
        radius: int | None = None,
        *,
        ranking: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        offset: int = 0,
        cursor: str | None = None,
        with_payload: bool = False,
        with_text: bool = False,
        with_code: bool = False,
        with_cursor: bool = True,
        rerank: bool = False,
        hybrid: Hybrid | None = None,
        rescore: Rescore | None = None,
        highlight: bool = False,
    ) -> SearchResult:
        """See :meth:`index.backend.CollectionBackend.search`.

        All queries are answered on the same generation. A query by id also finds the document
        itself.
        """
        options = SearchOptions(
            k,
            radius,
            ranking,
            filter,
            offset,
            cursor,
            with_payload=with_payload,
            with_text=with_text,
            with_code=with_code,
            with_cursor=with_cursor,
            rerank=rerank,
            hybrid=hybrid,
            rescore=rescore,
            highlight=highlight,
        )
        return self.find(queries, options)

    @abstractmethod
    def find(self, queries: Queries, options: SearchOptions) -> SearchResult:
        """See :meth:`index.backend.CollectionBackend.find`."""

    @property
    @abstractmethod
    def indexed_fields(self) -> tuple[str, ...]:
        """See :attr:`index.backend.CollectionBackend.indexed_fields`."""

    @property
    @abstractmethod
    def field_types(self) -> Mapping[str, FieldType]:
        """See :attr:`index.backend.CollectionBackend.field_types`."""

    @abstractmethod
    def bytes_on_disk(self) -> int:
        """Return the size of the collection on disk; 0 if it cannot be known."""

    def _stats(
        self,
        *,
        documents: int,
        generation: int,
        engine: str,
        engine_reason: str,
        statistics: Mapping[str, Any],
        problems: list[str],
    ) -> dict[str, Any]:
        """Return what :meth:`index.backend.CollectionBackend.stats` returns."""
        return {
            "name": self.name,
            "documents": documents,
            "n_bits": self.n_bits,
            "encoder": self.encoder_name,
            "encoder_fingerprint": self.encoder_fingerprint,
            "generation": generation,
            "engine_setting": self.engine_setting,
            "keep_vectors": self.keep_vectors,
            "ranking": self.ranking,
            "indexed_fields": list(self.indexed_fields),
            "engine": engine,
            "engine_reason": engine_reason,
            **statistics,
            "bytes_on_disk": self.bytes_on_disk(),
            "problems": problems,
        }

    def _last_of_each_id(
        self, documents: Sequence[Document], codes: Codes
    ) -> tuple[list[Document], Codes]:
        """Keep the last document of each id, and its code.

        Raises:
            InputError: unless there is a code of `n_bits` for each document.
        """
        shape = (len(documents), self.n_bits // 8)
        if codes.dtype != np.uint8 or codes.shape != shape:
            actual = f"{codes.dtype}{list(codes.shape)}"
            raise InputError("codes", f"are {actual}; they must be uint8{list(shape)}")
        last = sorted({document.id: at for at, document in enumerate(documents)}.values())
        return [documents[at] for at in last], codes[last]

    def _scroll_key(self, limit: int, filter_: Filter | None) -> tuple[str, str, str, str | None]:
        """Return the values that bind a cursor to this scroll.

        Raises:
            InputError: if `limit` is not from 1 to :data:`MAX_K`.
        """
        if not 1 <= limit <= MAX_K:
            raise InputError("limit", f"is {limit}; it must be from 1 to {MAX_K}")
        filter_json = None if filter_ is None else filter_to_json(filter_)
        return ("scroll", self.name, self.incarnation, filter_json)


def check_encoder(description: Description, encoder: Encoder | None) -> None:
    """Raise EncoderMismatch unless `encoder` made the codes of the collection."""
    expected = description.encoder_fingerprint
    actual = None if encoder is None else encoder.fingerprint
    if actual != expected:
        message = (
            f"collection {description.name!r} was made with encoder {description.encoder_name!r},"
            f" fingerprint {expected}; this encoder has fingerprint {actual}. To change the"
            " encoder, index the documents again."
        )
        raise EncoderMismatch(message)
    if encoder is not None and encoder.n_bits != description.n_bits:
        bits = f"codes of {description.n_bits} bits, but its encoder makes {encoder.n_bits}"
        raise EncoderMismatch(f"collection {description.name!r} has {bits}")
