"""Runs queries over a corpus in a temporary collection, for the interfaces of benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hummingbit.embedded import Collection
from index.backend import MAX_K
from index.encoded_inputs import batches

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
    documents that it lists for the query, if they are among the first :data:`index.backend.MAX_K`.

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
