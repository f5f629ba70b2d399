"""BEIR: an encoder as a dense model, and a collection as a retriever.

Source of the interfaces: ``beir.retrieval.search.dense.exact_search`` and
``beir.retrieval.search.base`` of beir 2, https://github.com/beir-cellar/beir
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beir.retrieval.search import BaseSearch

from hummingbit.encoder_loading import load_encoder
from hummingbit.integrations.beir_files import title_and_text
from hummingbit.integrations.dense import as_tensor, embed_documents, embed_queries
from hummingbit.integrations.retrieval_run import scores_of_run


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
