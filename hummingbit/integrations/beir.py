"""BEIR: an encoder as a dense model, and a collection as a retriever, from files in its format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from beir.retrieval.search import BaseSearch

from hummingbit.corpus.json_rows import read_json_lines
from hummingbit.corpus.lines import BadLine, ReadError, open_bytes
from hummingbit.corpus.qrels import read_qrels
from hummingbit.embedded import Collection
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder_loading import load_encoder
from hummingbit.index.encoding import batches
from hummingbit.index.names import MAX_K

# Embeddings of an encoder whose inner products are the scores of its rankings, for benchmarks.


def embed_documents(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Return the bits of documents, ±1, float32 of shape ``(N, n_bits)``.

    Raises:
        InputError: if the encoder does not take texts.
    """
    return _signs(encoder.encode(texts))


def embed_queries(encoder: Encoder, texts: Sequence[str], *, weigh: bool) -> Floats:
    """Return the embeddings of queries, float32 of shape ``(N, n_bits)``.

    If `weigh` is true they are the weights of the bits, as in the asymmetric ranking. Otherwise
    they are the queries' bits, ±1, as in the Hamming ranking: the inner product with a document's
    bits is n_bits less twice the distance.

    Raises:
        InputError: if the encoder does not take texts.
    """
    if weigh:
        return encoder.query_weights(texts)
    return _signs(encoder.encode_queries(texts))


def as_tensor(embeddings: Any) -> Any:
    """Return embeddings as a torch tensor."""
    import torch  # noqa: PLC0415 - the benchmarks install it

    return torch.as_tensor(embeddings)


def _signs(codes: Codes) -> Floats:
    return unpack_codes(codes).astype(np.float32) * 2 - 1


# Runs queries over a corpus in a temporary collection, for the interfaces of benchmarks.


_QUERIES_AT_ONCE = 100


def scores_of_run(  # noqa: PLR0917 - the arguments of the interfaces
    encoder: Path,
    corpus: Mapping[str, str],
    queries: Mapping[str, str],
    ranking: str,
    top_k: int,
    top_ranked: Mapping[str, list[str]] | None = None,
) -> dict[str, dict[str, float]]:
    """Return the scores of the best `top_k` texts of `corpus` for each query, by id.

    `encoder` is the folder of a text encoder. With `top_ranked`, the scores are those of the
    documents that it lists for the query, if they are among the first
    :data:`hummingbit.index.backend.MAX_K`.

    Raises:
        ArtifactError: if `encoder` is not an intact encoder.
        InputError: if the encoder does not take texts, or the ranking is invalid.
    """
    limit = min(top_k if top_ranked is None else MAX_K, MAX_K)
    scores: dict[str, dict[str, float]] = {}
    with (
        TemporaryDirectory(prefix="hummingbit-run-") as folder,
        Collection.create(folder, "run", encoder=encoder) as collection,
    ):
        for ids in batches(corpus, 10_000):
            collection.add([corpus[id_] for id_ in ids], ids=ids)
        for ids in batches(queries, _QUERIES_AT_ONCE):
            texts = [queries[id_] for id_ in ids]
            pages = collection.search_many(texts, limit=limit, ranking=ranking)
            for id_, hits in zip(ids, pages, strict=True):
                allowed = None if top_ranked is None else set(top_ranked.get(id_, ()))
                ranked = (hit for hit in hits if allowed is None or hit.id in allowed)
                scores[id_] = {hit.id: float(hit.score) for hit in itertools.islice(ranked, top_k)}
    return scores


# Files in BEIR's format: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.


class BeirFiles(NamedTuple):
    """The contents of a folder in BEIR's format, as ``beir.GenericDataLoader`` returns them."""

    corpus: dict[str, dict[str, str]]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def read_beir(folder: Path, split: str) -> BeirFiles:
    """Read a folder, with the judgements of `split` and the queries that they name.

    Raises:
        ReadError: if a file is missing, or a line is malformed.
    """
    qrels = read_qrels(folder / "qrels" / f"{split}.tsv")
    queries = {id_: row["text"] for id_, row in _records(folder / "queries.jsonl") if id_ in qrels}
    corpus = {
        id_: {"title": row.get("title") or "", "text": row["text"]}
        for id_, row in _records(folder / "corpus.jsonl")
    }
    return BeirFiles(corpus, queries, {id_: qrels[id_] for id_ in queries})


def title_and_text(row: Mapping[str, Any]) -> str:
    """Return the text of a document as BEIR's models take it: its title, a space, its text."""
    return f"{row.get('title') or ''} {row.get('text') or ''}".strip()


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        stream = open_bytes(path)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None
    with stream:
        for row in read_json_lines(stream, str(path)):
            record = row.record
            if (
                not isinstance(record, dict)
                or not isinstance(record.get("_id"), str)
                or not isinstance(record.get("text"), str)
            ):
                reason = row.reason or "must be an object with the strings _id and text"
                raise ReadError(str(BadLine(str(path), row.line, reason)))
            yield record["_id"], record


# BEIR: an encoder as a dense model, and a collection as a retriever.
#
# Source of the interfaces: ``beir.retrieval.search.dense.exact_search`` and
# ``beir.retrieval.search.base`` of beir 2, https://github.com/beir-cellar/beir


class HummingbitModel:
    """An encoder of texts as a model of BEIR's ``DenseRetrievalExactSearch``.

    A document's embedding is its bits, ±1. A query's embedding is the weight of each bit; with
    ``score_function="dot"`` this gives the asymmetric ranking. If `weigh_queries` is false it is
    the query's bits, which gives the Hamming ranking.
    """

    def __init__(self, folder: str | Path, *, weigh_queries: bool = True) -> None:
        """`folder` is the folder of a text encoder."""
        self._encoder = load_encoder(folder)
        self._weigh_queries = weigh_queries

    def encode_queries(self, queries: Sequence[str], batch_size: int = 16, **_: Any) -> Any:  # noqa: ARG002
        """Return the embeddings of queries, float32 of shape ``(N, n_bits)``, for torch."""
        return as_tensor(embed_queries(self._encoder, queries, weigh=self._weigh_queries))

    def encode_corpus(
        self,
        corpus: Sequence[Mapping[str, str]],
        batch_size: int = 16,  # noqa: ARG002
        **_: Any,
    ) -> Any:
        """Return the embeddings of documents, float32 of shape ``(N, n_bits)``, for torch."""
        return as_tensor(embed_documents(self._encoder, [*map(title_and_text, corpus)]))


class HummingbitRetriever(BaseSearch):
    """A collection as a retriever of BEIR's ``EvaluateRetrieval``, by any of its rankings."""

    def __init__(self, folder: str | Path, *, ranking: str = "hybrid") -> None:
        """`folder` is the folder of a text encoder."""
        self._folder = Path(folder)
        self._ranking = ranking

    def search(
        self,
        corpus: Mapping[str, Mapping[str, str]],
        queries: Mapping[str, str],
        top_k: int,
        score_function: str | None = None,  # noqa: ARG002 - the ranking says it
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the scores of the best `top_k` documents for each query, by id.

        Raises:
            InputError: if the encoder does not take texts, or the ranking is invalid.
        """
        texts = {id_: title_and_text(row) for id_, row in corpus.items()}
        return scores_of_run(self._folder, texts, queries, self._ranking, top_k)

    def encode(self, *_: Any, **__: Any) -> None:
        """Refuse: a collection keeps its codes in its own files, and not as pickles.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a collection writes no pickles of embeddings; call retrieve")

    def search_from_files(self, *_: Any, **__: Any) -> dict[str, dict[str, float]]:
        """Refuse: nothing is unpickled.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("nothing is unpickled; call retrieve")
