"""The choice of the query's classifier and of the share of content bits, by held-out clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoder.codes import Codes, pack_bits
from encoder.encoder import forward
from encoder.features import Floats
from encoder.recipes import (
    CHOSEN,
    CONTENT_SHARES,
    QUERY_CLASSIFIERS,
    WORD_VECTOR_CLASSIFIERS,
    ClassCodeRecipe,
)
from evaluation.retrieval import evaluate_codes
from foundation.stages import begin_stage
from training.class_codes.class_maps import ClassMaps
from training.class_codes.code_parts import ContentLayers, class_code
from training.class_codes.word_vectors import WordTable
from training.data import Rows, Tags
from training.soft_labels.estimation import estimate_soft_labels
from training.trials.held_out_clusters import (
    FOLDS,
    cluster_folds,
    list_length,
    median_class_size,
    split_folds,
)

Progress = Callable[[str], None]

# The loss of P@k that is accepted for a larger share of content.
_MAX_LOSS = 0.005
# The gain of P@k that is needed to use a classifier other than the first.
_MIN_GAIN = 0.001
_MAX_QUERIES = 2000
# The numbers of clusters into which a class is divided, in turn. Queries of a single large cluster
# are far from the other documents, and those of several small ones are nearer. With few labels in a
# class, hardly one is left near a large cluster, and trials would not show what the labels teach.
_DIVISIONS = (FOLDS, 2 * FOLDS)
_DIVISIONS_OF_FEW_LABELS = (2 * FOLDS, 5 * FOLDS)
_FEW_LABELS = 30
# Trials take about five times as long as the rest of a run, and more documents tell little more.
_MAX_DOCUMENTS = 100_000


@dataclass(frozen=True)
class Choice:
    """The chosen settings, and the tie-averaged P@k of each trial on the held-out clusters."""

    query_classifier: str
    content_share: float
    trials: Sequence[Mapping[str, Any]] = ()


def choose(
    rows: Any,
    tags: Tags,
    soft_labels: Floats,
    recipe: ClassCodeRecipe,
    content: ContentLayers,
    *,
    words: WordTable | None = None,
    learned: Any,
    progress: Progress,
) -> Choice:
    """Return the query's classifier and the content share that work best on held-out clusters.

    With a table of word vectors, `words`, classifiers that use it are tried, too. `learned` are the
    rows from which soft labels are estimated.

    All documents are divided by :func:`training.trials.held_out_clusters.cluster_folds`: into five
    clusters of each class, then into ten; or into ten, then 25, if the median class has fewer than
    30 labelled documents. Of more than 100,000 documents, only so many take part
    (:func:`draw_documents`), and they are divided once. By their `soft_labels`, documents without a
    label are of their likeliest class. The labelled documents of a fold are queries, and those of
    the other folds are searched. As in the run, classifiers learn from labels and from the soft
    labels of the other documents, but the fold is left out: a run knows neither its queries nor
    unlabelled documents near them. Terms and content come from all documents. All classes of all
    folds have equal weight, since queries need not be distributed as the labels are. k is 100, or
    half the median class size if that is less.

    The classifier with the highest tie-averaged P@k is chosen, or the first if that is at most
    0.001 worse. Of the shares of content that documents and features can fill, and that leave a
    codeword for each class, the largest is chosen that costs at most 0.005 of P@k. If there are too
    few labels to search documents of two classes without a fold, the choice is the first classifier
    and the middle share.
    """
    is_text = not isinstance(rows, np.ndarray)
    possible = [
        share
        for share in CONTENT_SHARES
        if recipe.widths(share)[2] < min(rows.shape) and recipe.can_hold(tags.shape[1], share)
    ]
    shares = [recipe.content_share] if recipe.content_share else possible or CONTENT_SHARES[-1:]
    names: tuple[str, ...] = (recipe.query_classifier,)
    if recipe.query_classifier == CHOSEN:
        names = QUERY_CLASSIFIERS if is_text else QUERY_CLASSIFIERS[:1]
        names += WORD_VECTOR_CLASSIFIERS if words else ()
    if len(names) * len(shares) == 1:
        return Choice(names[0], shares[0])
    middle = shares[len(shares) // 2]
    begin_stage("choosing by trials on held-out clusters")
    trial = _Trial(rows, tags, soft_labels, recipe, content, words=words, learned=learned)
    if not trial.has_queries:
        return Choice(names[0], middle)
    trials = []

    def score(name: str, share: float) -> float:
        value = trial.score(name, share)
        trials.append({"query_classifier": name, "content_share": share, trial.metric: value})
        tried = f"query classifier {name}, content share {share:g}"
        progress(f"held-out clusters: {tried}: {trial.metric} {value:.4f}")
        return value

    # The classifier is chosen first, with the middle share; then the share.
    by_name = {name: score(name, middle) for name in names}
    best = max(by_name, key=lambda name: by_name[name])
    if by_name[best] <= by_name[names[0]] + _MIN_GAIN:
        best = names[0]
    by_share = {share: by_name[best] if share == middle else score(best, share) for share in shares}
    threshold = max(by_share.values()) - _MAX_LOSS
    share = next(share for share in shares if by_share[share] >= threshold)
    progress(f"chosen: query classifier {best}, content share {share:g}")
    return Choice(best, share, tuple(trials))


@dataclass(frozen=True)
class _Fold:
    """The classifiers that learned without a fold, the rows to search and the rows that query."""

    maps: ClassMaps
    searched: Rows
    queries: Rows


class _Trial:
    """Searches with the documents of held-out clusters as queries."""

    def __init__(
        self,
        rows: Any,
        tags: Tags,
        soft_labels: Floats,
        recipe: ClassCodeRecipe,
        content: ContentLayers,
        *,
        words: WordTable | None,
        learned: Any,
    ) -> None:
        rng = np.random.default_rng(recipe.seed)
        self._content_rows = content.rows
        is_drawn = len(tags) > _MAX_DOCUMENTS
        if is_drawn:
            drawn = draw_documents(tags, _MAX_DOCUMENTS, rng)
            rows, learned, self._content_rows = rows[drawn], learned[drawn], content.rows[drawn]
            tags, soft_labels = tags[drawn], soft_labels[drawn]
        self._rows = rows
        self._content = content
        self._recipe = recipe
        labelled = np.flatnonzero(tags.any(axis=1))
        self._tags = tags
        self._classes = soft_labels.argmax(axis=1)
        self.metric = f"P@{list_length(self._classes[labelled])}"
        sample = labelled[rng.permutation(len(labelled))[:_MAX_QUERIES]]
        self._folds = []
        has_few_labels = median_class_size(self._classes[labelled]) < _FEW_LABELS
        divisions = _DIVISIONS_OF_FEW_LABELS if has_few_labels else _DIVISIONS
        # The rows of all folds are in memory at once.
        for kept, held_out in self._divide(divisions[:1] if is_drawn else divisions):
            searched, queries = np.intersect1d(kept, labelled), np.intersect1d(held_out, sample)
            if len(np.unique(self._classes[searched])) > 1 and len(queries):
                targets = estimate_soft_labels(learned[kept], tags[kept], recipe.seed)
                maps = ClassMaps(
                    rows[kept],
                    targets,
                    recipe.seed,
                    words,
                    known=np.asarray(tags[kept].any(axis=1)),
                    label_weight=recipe.label_weight,
                )
                self._folds.append(_Fold(maps, searched, queries))

    def _divide(self, divisions: Sequence[int]) -> Iterator[tuple[Rows, Rows]]:
        """Yield the documents outside and inside each fold of each division."""
        everything, seed = np.arange(len(self._classes)), self._recipe.seed
        for clusters in divisions:
            folds = cluster_folds(self._rows, everything, self._classes, seed, clusters)
            yield from split_folds(folds)

    @property
    def has_queries(self) -> bool:
        """Whether any document can be a query: with few labels there may be nothing to search."""
        return bool(self._folds)

    def score(self, name: str, share: float) -> float:
        """Return the tie-averaged P@k, the mean over the classes of all folds."""
        widths = self._recipe.widths(share)
        content = self._content.of(widths[2])
        values: list[float] = []
        for fold in self._folds:
            document_rows, query_rows = self._rows[fold.searched], self._rows[fold.queries]
            code = class_code(fold.maps, document_rows, name, widths[:2], self._recipe)
            content_logits = forward([content], self._content_rows[fold.searched])
            document_codes = _pack(code.logits(document_rows), content_logits)
            query_codes = _pack(code.query_weights(query_rows), forward([content], query_rows))
            evaluation = evaluate_codes(
                query_codes,
                self._labels(fold.queries),
                document_codes,
                self._labels(fold.searched),
                [self.metric],
            )
            precision = evaluation.expected_per_query[self.metric]
            classes = self._classes[fold.queries]
            values += [precision[classes == number].mean() for number in np.unique(classes)]
        return float(np.mean(values))

    def _labels(self, rows: Rows) -> list[tuple[str, ...]]:
        return [tuple(map(str, np.flatnonzero(tags))) for tags in self._tags[rows]]


def draw_documents(tags: Tags, number: int, rng: np.random.Generator) -> Rows:
    """Return `number` random rows of `tags`, ``(N, C)``, in order.

    Half of them are labelled: fewer if there are fewer, and more if too few others are left.
    """
    is_labelled = np.asarray(tags.any(axis=1))
    labelled, others = (rng.permutation(np.flatnonzero(one)) for one in (is_labelled, ~is_labelled))
    n_labelled = min(len(labelled), max(number // 2, number - len(others)))
    return np.sort(np.concatenate([labelled[:n_labelled], others[: number - n_labelled]]))


def _pack(class_logits: Floats, content_logits: Floats) -> Codes:
    return pack_bits(np.hstack([class_logits, content_logits]) > 0)
