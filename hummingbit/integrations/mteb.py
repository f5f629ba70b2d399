"""MTEB: an encoder and a collection as models, and a retrieval task of files in BEIR's format.

Source of the interfaces: ``mteb.models.models_protocols`` and ``mteb.abstasks.retrieval`` of
mteb 2, https://embeddings-benchmark.github.io/mteb/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb import TaskMetadata
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder_loading import load_encoder
from hummingbit.integrations.beir import (
    as_tensor,
    embed_documents,
    embed_queries,
    read_beir,
    scores_of_run,
    title_and_text,
)

_NAMESPACE = "hummingbit"


class HummingbitEncoder:
    """An encoder of texts as a model of MTEB (``EncoderProtocol``).

    The embedding of a document, or of a text in a task without queries, is its bits, ±1. That of a
    query is the weight of each bit, so the inner product is the score of the asymmetric ranking. If
    `weigh_queries` is false it is the query's bits, and the inner product is n_bits less twice the
    Hamming distance.
    """

    def __init__(self, folder: str | Path, *, weigh_queries: bool = True) -> None:
        """`folder` is the folder of a text encoder; results name the model after it."""
        self._encoder = load_encoder(folder)
        self._weigh_queries = weigh_queries
        ranking = "asymmetric" if weigh_queries else "hamming"
        self.mteb_model_meta = _meta(folder, ranking, self._encoder, ScoringFunction.DOT_PRODUCT)
        """The description of the model in results; its revision is the encoder's fingerprint."""

    def encode(
        self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: Any = None, **_: Any
    ) -> Floats:
        """Return the embeddings of batches of texts, float32 of shape ``(N, n_bits)``.

        Raises:
            InputError: if the encoder does not take texts.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        if prompt_type == PromptType.query:
            return embed_queries(self._encoder, texts, weigh=self._weigh_queries)
        return embed_documents(self._encoder, texts)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return inner products, ``(N, M)``, as tensors of torch."""
        return as_tensor(embeddings1) @ as_tensor(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the inner products of pairs, ``(N,)``, as tensors of torch."""
        return (as_tensor(embeddings1) * as_tensor(embeddings2)).sum(dim=-1)


class HummingbitSearch:
    """A collection as a model of MTEB (``SearchProtocol``): it indexes the corpus and searches.

    `ranking` is any of a collection's, so that BM25 and hybrid search can be measured as well.
    """

    def __init__(self, folder: str | Path, *, ranking: str = "hybrid") -> None:
        """`folder` is the folder of a text encoder; results name the model after it."""
        self._encoder = Path(folder)
        self._ranking = ranking
        self._corpus: dict[str, str] = {}
        self.mteb_model_meta = _meta(folder, ranking, load_encoder(folder), None)
        """The description of the model in results; its revision is the encoder's fingerprint."""

    def index(self, corpus: Iterable[Mapping[str, Any]], **_: Any) -> None:
        """Set the documents that :meth:`search` ranks."""
        self._corpus = {row["id"]: title_and_text(row) for row in corpus}

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the scores of the best `top_k` documents for each query, by id.

        With `top_ranked`, as in reranking tasks, only the documents that it lists are ranked.
        """
        texts = {row["id"]: row["text"] for row in queries}
        return scores_of_run(self._encoder, self._corpus, texts, self._ranking, top_k, top_ranked)


class LocalRetrieval(AbsTaskRetrieval):
    """A retrieval task of files in BEIR's format, which needs no network.

    The folder holds ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.
    """

    data_loaded: bool
    metadata = TaskMetadata(
        name="HummingbitLocalRetrieval",
        description="Documents, queries and judgements of a folder",
        dataset={"path": "local", "revision": "local"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        reference=None,
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation=None,
    )

    def __init__(self, folder: str | Path, *, split: str = "test", name: str | None = None) -> None:
        """`name` is the name of the task in results (default: the folder's)."""
        task_name = name or Path(folder).resolve().name
        update = {"name": f"Local-{task_name}", "eval_splits": [split]}
        self.metadata = type(self).metadata.model_copy(update=update)
        super().__init__()
        self._folder, self._split = Path(folder), split

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:  # noqa: ARG002
        """Read the files.

        Raises:
            ReadError: if one is missing or not in BEIR's format.
        """
        if self.data_loaded:
            return
        files = read_beir(self._folder, self._split)
        corpus = [{"id": id_, **row} for id_, row in files.corpus.items()]
        queries = [{"id": id_, "text": text} for id_, text in files.queries.items()]
        split = {
            "corpus": Dataset.from_list(corpus),
            "queries": Dataset.from_list(queries),
            "relevant_docs": files.qrels,
            "top_ranked": None,
        }
        self.dataset = {"default": {self._split: split}}
        self.data_loaded = True


def _meta(
    folder: str | Path, ranking: str, encoder: Encoder, scoring: ScoringFunction | None
) -> ModelMeta:
    name = f"{Path(folder).resolve().name}-{ranking}"
    return ModelMeta.create_empty(
        {
            "name": f"{_NAMESPACE}/{name}",
            "revision": encoder.fingerprint or "unsaved",
            "embed_dim": encoder.n_bits,
            "similarity_fn_name": scoring,
            "framework": ["NumPy"],
            "n_parameters": sum(layer.weight.size + layer.bias.size for layer in encoder.layers),
        }
    )
