"""Choosing the query's classifier and the share of content bits by held-out clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, pack_bits
from encoder.encoder import Layer, forward
from encoder.features import Floats
from evaluation.retrieval import evaluate_codes
from training.class_codes.class_maps import ClassMaps
from training.class_codes.class_recipe import (
    CHOSEN,
    CONTENT_SHARES,
    QUERY_CLASSIFIERS,
    ClassCodeRecipe,
)
from training.class_codes.code_parts import class_code, content_layer
from training.data import Rows
from training.held_out_clusters import cluster_folds, known_and_held

Progress = Callable[[str], None]
Scores = npt.NDArray[np.float64]

# A larger share of content is taken where it costs no more than this of P@k.
_CONTENT_MAY_COST = 0.005
_MOST_QUERIES = 2000


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what each trial scored: tie-averaged P@k of the held-out clusters."""

    query_classifier: str
    content_share: float
    trials: Sequence[Mapping[str, Any]] = ()


def choose(rows: Any, tags: Any, recipe: ClassCodeRecipe, progress: Progress) -> Choice:
    """Return the query's classifier and the content share that find most of held-out clusters.

    Each fold of :func:`training.held_out_clusters.cluster_folds` is searched for among the labelled
    documents of the others, by codes of classifiers that know the others' labels alone. Terms and
    content are of all documents. Clusters count alike, since queries need not come as the labels
    do. k is 100, or half the size of the middle class where that is less. A classifier other than
    the first must be better by more than one standard error over the clusters (the rule of Breiman,
    Friedman, Olshen and Stone, "Classification and Regression Trees", 1984).
    The largest share of content is taken that costs no more than .005 of tie-averaged P@k, among
    those that documents and features can fill.
    """
    is_text = not isinstance(rows, np.ndarray)
    filled = [one for one in CONTENT_SHARES if recipe.widths(one)[2] < min(rows.shape)]
    shares = [recipe.content_share] if recipe.content_share else filled or CONTENT_SHARES[-1:]
    names: tuple[str, ...] = (recipe.query_classifier,)
    if recipe.query_classifier == CHOSEN:
        names = QUERY_CLASSIFIERS if is_text else QUERY_CLASSIFIERS[:1]
    if len(names) * len(shares) == 1:
        return Choice(names[0], shares[0])
    trial = _Trial(rows, tags, recipe)
    trials = []

    def score(name: str, share: float) -> Scores:
        found = trial.score(name, share)
        figure = float(found.mean())
        trials.append({"query_classifier": name, "content_share": share, trial.metric: figure})
        progress(f"held-out clusters: {name}, content {share:g}: {trial.metric} {figure:.4f}")
        return found

    # The classifier first, with the share in the middle; then the share.
    middle = shares[len(shares) // 2]
    by_name = {name: score(name, middle) for name in names}
    best = _surely_best(by_name)
    by_share = {
        share: float((by_name[best] if share == middle else score(best, share)).mean())
        for share in shares
    }
    enough = max(by_share.values()) - _CONTENT_MAY_COST
    share = next(share for share in shares if by_share[share] >= enough)
    progress(f"chosen: {best}, content {share:g}")
    return Choice(best, share, tuple(trials))


def _surely_best(by_name: Mapping[str, Scores]) -> str:
    """Return the first name, or the best of those that are surely better.

    Surely is by more than one standard error of the mean difference over the clusters.
    """
    first, *others = by_name
    best, most = first, 0.0
    for name in others:
        gain = by_name[name] - by_name[first]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
        if gain.mean() > max(most, error):
            best, most = name, float(gain.mean())
    return best


class _Trial:
    """Searches of held-out clusters."""

    def __init__(self, rows: Any, tags: Any, recipe: ClassCodeRecipe) -> None:
        self._rows = rows
        self._recipe = recipe
        labelled = np.flatnonzero(tags.any(axis=1))
        self._classes = tags[labelled].argmax(axis=1)
        folds = cluster_folds(rows, labelled, self._classes, recipe.seed)
        self._taken = labelled
        rng = np.random.default_rng(recipe.seed)
        asked = rng.permutation(len(labelled))[:_MOST_QUERIES]
        drawn = [(known, np.intersect1d(held, asked)) for known, held in known_and_held(folds)]
        self._folds = [(known, held) for known, held in drawn if len(known) and len(held)]
        targets = np.eye(tags.shape[1], dtype=np.float32)[self._classes]

        clusters = [
            held[self._classes[held] == one]
            for _, held in self._folds
            for one in range(tags.shape[1])
        ]
        self._clusters = [cluster for cluster in clusters if len(cluster)]
        self._maps = [
            ClassMaps(rows[labelled[known]], targets[known], recipe.seed)
            for known, _ in self._folds
        ]
        sizes = np.bincount(self._classes)
        k = int(np.median(sizes[sizes > 0])) // 2
        self.metric = f"P@{max(1, min(100, k))}"
        self._content: dict[int, Layer] = {}

    def score(self, name: str, share: float) -> Scores:
        """Return tie-averaged P@k of each cluster, float64, by fold and class."""
        widths = self._recipe.widths(share)
        content = self._content_layer(widths[2])
        precision = np.zeros(len(self._taken))
        for maps, (known, held) in zip(self._maps, self._folds, strict=True):
            known_rows, held_rows = (self._rows[self._taken[some]] for some in (known, held))
            code = class_code(maps, known_rows, name, widths[:2], self._recipe)
            documents = _bits(code.logits(known_rows), forward([content], known_rows))
            queries = _bits(code.query_weights(held_rows), forward([content], held_rows))
            found = evaluate_codes(
                queries, self._names(held), documents, self._names(known), [self.metric]
            )
            precision[held] = found.expected_per_query[self.metric]
        return np.array([precision[cluster].mean() for cluster in self._clusters])

    def _names(self, places: Rows) -> list[tuple[str, ...]]:
        return [(str(one),) for one in self._classes[places]]

    def _content_layer(self, n_bits: int) -> Layer:
        if n_bits not in self._content:
            self._content[n_bits] = content_layer(self._rows, n_bits, self._recipe.seed)
        return self._content[n_bits]


def _bits(named: Floats, content: Floats) -> Codes:
    return pack_bits(np.hstack([named, content]) > 0)
