"""Which documents of a collection to label next, and which answers to a query to judge."""

from __future__ import annotations

import heapq
import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import codes_from_hex, unpack_codes, whole_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.labelling.names import (
    HERDING,
    MARGIN,
    MAX_SUGGESTED,
    RANDOM,
    SECOND_OPINION,
    SUGGESTION_METHODS,
)
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError, counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.collection import Collection
from hummingbit.index.encoding import batches
from hummingbit.index.names import BM25
from hummingbit.index.rankings import RANKINGS
from hummingbit.index.records import Query, StoredDocument, labels_of
from hummingbit.index.store.annotations import agreed_labels

# A classifier fast enough to refit after every label: ridge regression.


Classes = npt.NDArray[np.int64]
Probabilities = npt.NDArray[np.float64]

REGULARIZATION = 0.3
# Ridge scores of different classes lie a few tenths apart. Scaled by this, their softmax is sharp.
SHARPNESS = 6.0


def class_scores(
    vectors: Floats, labelled: Classes, classes: Classes, n_classes: int
) -> Probabilities:
    """Return the scores of each document for each class, ``float64[N, C]``.

    `vectors` is ``float32[N, D]`` with rows of unit length. `labelled` lists the rows that have a
    label, and `classes` their classes. The model is a ridge regression of the one-hot classes,
    with an intercept. A class without a labelled row scores −1.
    """
    rows = vectors[labelled].astype(np.float64)
    targets = np.eye(n_classes)[classes]
    mean, base = rows.mean(axis=0), targets.mean(axis=0)
    centred = rows - mean
    if len(rows) <= rows.shape[1]:  # the smaller of the two systems
        kernel = centred @ centred.T + REGULARIZATION * np.eye(len(rows))
        weights = centred.T @ np.linalg.solve(kernel, targets - base)
    else:
        kernel = centred.T @ centred + REGULARIZATION * np.eye(rows.shape[1])
        weights = np.linalg.solve(kernel, centred.T @ (targets - base))
    scores = np.asarray(vectors @ weights - mean @ weights + base)
    scores[:, ~targets.any(axis=0)] = -1.0
    return scores


def class_probabilities(scores: Probabilities) -> Probabilities:
    """Return the softmax of the scores times :data:`SHARPNESS`, ``float64[N, C]``."""
    powers = np.exp(SHARPNESS * (scores - scores.max(axis=1, keepdims=True)))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


# The documents from which the next to label are chosen, and what is known of them.


Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pool:
    """Documents to choose from, with the labels so far.

    `vectors` is ``float32[N, D]`` with rows of unit length. `buckets`, ``int64[N]``, are equal for
    documents of one code. `labelled` lists the rows that have a label, and `classes` their classes,
    from 0 to `n_classes` − 1. The rows in `excluded` are never chosen.
    """

    vectors: Floats
    buckets: Classes
    labelled: Rows
    classes: Classes
    n_classes: int
    excluded: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def has_classes(self) -> bool:
        """Whether a class can be uncertain: there are two or more, and labels."""
        return self.n_classes >= 2 and len(self.labelled) > 0

    @property
    def available(self) -> Rows:
        """The rows to choose from, ascending."""
        unavailable = np.concatenate([self.labelled, self.excluded])
        return np.delete(np.arange(len(self.vectors)), unavailable)

    @cached_property
    def probabilities(self) -> Probabilities | None:
        """The probabilities of the classes, ``float64[N, C]``; None without any label."""
        if not len(self.labelled):
            return None
        return class_probabilities(
            class_scores(self.vectors, self.labelled, self.classes, self.n_classes)
        )


# A vector for each document of a collection, from which methods choose what to label next.
#
# Texts are projected on the principal directions of their features, which is latent semantic
# analysis (Deerwester et al. 1990). Vectors are centred, and documents that came with codes are
# represented by their bits. All rows are scaled to unit length. A large collection is represented
# by a sample and by its labelled documents, 20,000 documents at most. Their texts have about 64
# million characters at most; of longer ones, fewer documents are used.


MAX_DOCUMENTS = 20_000
MAX_CHARACTERS = 64_000_000
DIRECTIONS = 128
MAX_CACHED = 4
# A text may have a million characters.
READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class DocumentVectors:
    """Documents with their vectors, ``float32[N, D]`` of unit length, and ``int64[N]`` buckets.

    Documents of one code share a bucket.
    """

    documents: Sequence[StoredDocument]
    vectors: Floats
    buckets: Classes


class VectorCache:
    """The vectors of the few collections that were used last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = threading.Lock()
        self._cache: OrderedDict[tuple[object, ...], DocumentVectors] = OrderedDict()

    def of(self, collection: Collection, labelled_ids: Iterable[str] = ()) -> DocumentVectors:
        """Return the vectors of a sample and of the documents with `labelled_ids`.

        They are computed again after a write, or when the labelled documents change. Concurrent
        callers wait for one computation, which yields the processor to searches. Of more than
        20,000 labelled ids, 20,000 are used.

        Raises:
            StoreError: if the collection cannot be read.
        """
        # By a hash of the id, so that one more label hardly changes which ids are used.
        some_ids = heapq.nsmallest(MAX_DOCUMENTS, labelled_ids, key=lambda id_: crc32(id_.encode()))
        sample = tuple(collection.annotations.sample(MAX_DOCUMENTS, some_ids))
        key = (collection.incarnation, sample)
        vectors = self._get(key)
        if vectors is None:
            with self._computing:
                vectors = self._get(key)
                if vectors is None:
                    documents = _read_documents(collection, sample)
                    vectors = vectorize_documents(documents, collection.encoder)
                    self._remember(key, vectors)
        return vectors

    def _get(self, key: tuple[object, ...]) -> DocumentVectors | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _remember(self, key: tuple[object, ...], vectors: DocumentVectors) -> None:
        with self._lock:
            self._cache[key] = vectors
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)


def _read_documents(collection: Collection, rows: Sequence[int]) -> list[StoredDocument]:
    """Return the documents of `rows`, or of some at random if they have too many characters."""
    documents: list[StoredDocument] = []
    size = 0
    for some in batches(np.random.default_rng(0).permutation(rows).tolist(), READ_AT_ONCE):
        read = collection.annotations.documents(some)
        documents += read
        size += sum(len(document.text or "") for document in read)
        if size > MAX_CHARACTERS:
            break
    return sorted(documents, key=lambda document: document.row)


def vectorize_documents(
    documents: Sequence[StoredDocument], encoder: Encoder | None
) -> DocumentVectors:
    """Return the vectors of `documents`, whose codes `encoder` made.

    Without codes, they are those of the words, and each document has a bucket of its own.
    """
    if not documents:
        empty = np.empty(0, dtype=np.int64)
        return DocumentVectors([], np.empty((0, 1), dtype=np.float32), empty)
    if not documents[0].code:
        words = _project(_weighted_words([document.text or "" for document in documents]))
        return DocumentVectors(documents, unit_rows(words), np.arange(len(documents)))
    codes = codes_from_hex([document.code for document in documents], 4 * len(documents[0].code))
    _, buckets = np.unique(whole_codes(codes), return_inverse=True)
    features = _features(documents, encoder)
    check_cancelled()
    if features is None:
        features = 2 * unpack_codes(codes).astype(np.float32) - 1
    return DocumentVectors(documents, unit_rows(features), buckets.reshape(-1))


def _weighted_words(texts: Sequence[str]) -> Any:
    """Return the frequencies of the words of each text, by their inverse document frequencies."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - takes a second

    # Texts without any word have a row, too.
    return TfidfVectorizer(sublinear_tf=True).fit_transform([*texts, "words"])[:-1]


def _features(documents: Sequence[StoredDocument], encoder: Encoder | None) -> Floats | None:
    """Return ``float32[N, D]``; None where the encoder does not accept such documents."""
    # A language model would read every text again.
    if encoder is None or encoder.is_slow:
        return None
    if encoder.kind == "text" and all(document.text is not None for document in documents):
        rows = encoder.features.transform([str(document.text) for document in documents])  # type: ignore[arg-type]
        check_cancelled()
        return _project(rows)
    vectors = [document.vector for document in documents if document.vector is not None]
    if encoder.kind == "text" or len(vectors) < len(documents):
        return None
    features = np.asarray(encoder.features.transform(np.stack(vectors)), dtype=np.float32)  # type: ignore[arg-type]
    centred: Floats = features - features.mean(axis=0)
    return centred


def _project(rows: Any) -> Floats:
    """Project `rows`, weighted terms as a scipy matrix, on their principal directions."""
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second

    size = min(DIRECTIONS, rows.shape[0] - 1, rows.shape[1] - 1)
    if size < 1:
        return np.asarray(rows.todense(), dtype=np.float32)
    # If all documents are alike, it divides by a variance of 0 for figures that are not used.
    with np.errstate(divide="ignore", invalid="ignore"):
        projected = TruncatedSVD(size, random_state=0).fit_transform(rows)
    return np.asarray(projected, dtype=np.float32)


# Uncertainty herding: documents near many others whose classes are uncertain.
#
# Source: Bae et al., "Uncertainty Herding: One Active Learning Method for All Label Budgets"
# (2025), here with a kernel of fixed width. With equal weights it is MaxHerding (Bae et al.,
# "Generalized Coverage for More Robust Low-Budget Active Learning", 2024).


WIDTH = 0.4
# Of more documents, so many are drawn: to choose from, and to be covered.
HERDING_CANDIDATES = 2500
COVERED = 4000
# Bounds the similarities that are held at once: of each of these rows to all that are covered.
HERDED_AT_ONCE = 256


def herd(
    vectors: Floats,
    weights: npt.NDArray[np.float64] | None,
    labelled: Rows,
    available: Rows,
    *,
    n: int,
    seed: int,
) -> Rows:
    """Return `n` of the rows `available`, each the one that then adds most to the coverage.

    The coverage is ``Σ_x w(x) max_c k(x, c)`` over the documents x, where c runs over the rows
    `labelled` and those chosen so far, and ``k(x, c) = exp(−‖x − c‖² / (2 · 0.4²))``. `vectors` are
    ``float32[N, D]``, rows of unit length; `weights` are ``float64[N]``, or None if all are 1. If
    there are more than 4,000 documents, or more than 2,500 available ones, random samples count.
    """
    rng = np.random.default_rng((seed, len(labelled)))
    covered = _drawn(np.arange(len(vectors)), COVERED, rng)
    candidates = _drawn(available, max(HERDING_CANDIDATES, n), rng)
    nearest = np.zeros(len(covered), dtype=np.float32)
    for start in range(0, len(labelled), HERDED_AT_ONCE):
        check_cancelled()
        known = vectors[labelled[start : start + HERDED_AT_ONCE]]
        nearest = np.maximum(nearest, _kernel(known, vectors[covered]).max(axis=0))
    alike = _kernel(vectors[candidates], vectors[covered])
    weight = np.ones(len(covered)) if weights is None else weights[covered]
    weight = weight.astype(np.float32)
    # What a document adds only shrinks as others are chosen, so an earlier gain is a bound.
    gains = np.maximum(alike - nearest, 0) @ weight
    chosen: list[int] = []
    while len(chosen) < n:
        check_cancelled()
        best = int(gains.argmax())
        gains[best] = np.maximum(alike[best] - nearest, 0) @ weight
        if int(gains.argmax()) == best:
            chosen.append(best)
            nearest = np.maximum(nearest, alike[best])
            gains[best] = -1
    return np.asarray(candidates[chosen])


def _drawn(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    return np.sort(rng.choice(rows, most, replace=False)) if len(rows) > most else rows


def _kernel(some: Floats, others: Floats) -> Floats:
    """Return k of unit vectors, ``float32[M, N]``: ‖x − c‖² = 2 − 2 x·c."""
    alike = some @ others.T
    alike -= 1
    alike /= WIDTH**2
    return np.asarray(np.exp(np.minimum(alike, 0, out=alike), out=alike))


# What to label next: orders of pool-based active learning, by their names.
#
# Sources: Bae et al. (2025), herding; Scheffer, Decomain and Wrobel (2001), margin. Six others were
# measured beside these: ``experiments/active_labels/orders.py``.


# The spread over buckets considers this many candidates for each document.
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Sampling:
    """An order: a phrase that describes it, and the function that chooses rows.

    `choose` takes the pool, the number of rows and a seed. If `by_uncertainty`, the pool must have
    two classes or more.
    """

    summary: str
    choose: Callable[[Pool, int, int], Rows]
    by_uncertainty: bool = True


def suggest(pool: Pool, n: int, method: str, seed: int = 0) -> Rows:
    """Return at most `n` rows to label next, in the order in which to label them.

    Below two classes nothing is uncertain, so `margin` chooses as `herding` does. The same pool and
    seed give the same rows.

    Raises:
        KeyError: if `method` is not in :data:`METHODS`.
    """
    return choose_by(METHODS[method], pool, n, seed)


def choose_by(sampling: Sampling, pool: Pool, n: int, seed: int) -> Rows:
    """Return at most `n` rows in an order; see :func:`suggest`."""
    choose = sampling.choose if pool.has_classes or not sampling.by_uncertainty else _herding
    n = min(n, len(pool.available))
    return choose(pool, n, seed) if n else np.empty(0, dtype=np.int64)


def _random(pool: Pool, n: int, seed: int) -> Rows:
    return np.random.default_rng((seed, len(pool.labelled))).permutation(pool.available)[:n]


def class_probabilities_of(pool: Pool) -> Probabilities:
    """Return the probabilities of a pool of two classes or more."""
    assert pool.probabilities is not None  # noqa: S101 - each class has a label
    return pool.probabilities


def _margin(pool: Pool, n: int, _seed: int) -> Rows:
    return spread_over_buckets(most_doubtful(pool, small_margin), pool.buckets, n)


def most_doubtful(
    pool: Pool, uncertainty: Callable[[Probabilities], npt.NDArray[np.float64]]
) -> Rows:
    """Return the available rows, those of the greatest uncertainty first."""
    available = pool.available
    doubts = uncertainty(class_probabilities_of(pool)[available])
    return available[np.argsort(-doubts, kind="stable")]


def small_margin(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return 1 − (p₁ − p₂) of each row, p₁ and p₂ being its two highest probabilities."""
    best = np.partition(probabilities, -2, axis=1)
    return np.asarray(1 - (best[:, -1] - best[:, -2]))


def spread_over_buckets(order: Rows, buckets: Classes, n: int) -> Rows:
    """Return `n` of the first rows of `order`, with as few as possible from the same bucket.

    The first ``10 n`` rows are the candidates. One of each bucket comes first, then a second of
    each, and so on.
    """
    candidates = order[: CANDIDATES * n]
    turns: dict[int, int] = {}
    keys = []
    for at, row in enumerate(candidates.tolist()):
        bucket = int(buckets[row])
        turns[bucket] = turns.get(bucket, -1) + 1
        keys.append((turns[bucket], at))
    return candidates[[at for _, at in sorted(keys)[:n]]]


def _herding(pool: Pool, n: int, seed: int) -> Rows:
    weights = small_margin(class_probabilities_of(pool)) if pool.has_classes else None
    return herd(pool.vectors, weights, pool.labelled, pool.available, n=n, seed=seed)


METHODS: Mapping[str, Sampling] = {
    HERDING: Sampling("documents near many whose classes are uncertain", _herding, False),
    MARGIN: Sampling("the two likeliest classes are closest, spread over buckets", _margin),
    RANDOM: Sampling("drawn at random, so that labels can measure", _random, False),
}


# Which answers to a query to judge next: pooled from several rankings, most informative first.
#
# Sources: depth-k pools as in TREC (Spärck Jones and van Rijsbergen 1975); the average-precision
# prior of Aslam, Pavlu and Yilmaz, "A Statistical Method for System Evaluation Using Incomplete
# Judgments" (2006), section 3; minimal test collections, Carterette, Allan and Sitaraman (2006).


DEPTH_K = "depth-k"
AP_PRIOR = "ap-prior"
DIFFERENCE = "difference"
POOLING_METHODS = {
    AP_PRIOR: "the documents that weigh most in the average precision of all rankings",
    DIFFERENCE: "the documents on which the rankings disagree most (minimal test collections)",
    DEPTH_K: "by the best rank that any ranking gives, as TREC pools",
}


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document to judge: how informative a judgement is, and its rank in each ranking, from 1."""

    id: str
    weight: float
    ranks: Mapping[str, int]


def pool(rankings: Mapping[str, Sequence[str]], method: str = AP_PRIOR) -> list[PooledDocument]:
    """Return the documents in any of `rankings`, lists of ids, the most informative first.

    Rank r of a list of Z documents weighs (1 + H_Z − H_r) / Z, H being harmonic numbers. That is
    about how far its judgement moves average precision. `ap-prior` adds up the weights over the
    rankings, `difference` subtracts the least from the greatest, and `depth-k` is 1 / the best
    rank. A document weighs 0 in a ranking that lacks it. Documents of equal weight are ordered by
    id.
    """
    ranks: dict[str, dict[str, int]] = {}
    for name, ids in rankings.items():
        for rank, id_ in enumerate(ids, start=1):
            ranks.setdefault(id_, {}).setdefault(name, rank)
    weights = {name: _weights(len(ids)) for name, ids in rankings.items()}

    def weight(ranks_of_document: Mapping[str, int]) -> float:
        if method == DEPTH_K:
            return 1 / min(ranks_of_document.values())
        each = [
            weights[name][ranks_of_document[name] - 1] if name in ranks_of_document else 0.0
            for name in rankings
        ]
        return max(each) - min(each) if method == DIFFERENCE else math.fsum(each)

    pooled = [
        PooledDocument(id_, weight(ranks_of_document), ranks_of_document)
        for id_, ranks_of_document in ranks.items()
    ]
    return sorted(pooled, key=lambda document: (-document.weight, document.id))


def _weights(size: int) -> list[float]:
    harmonic = [0.0, *accumulate(1 / rank for rank in range(1, size + 1))]
    return [(1 + harmonic[size] - harmonic[rank]) / size for rank in range(1, size + 1)]


# Which documents of a collection to label next, and which answers to a query to judge.


MAX_GUESSES = 3
# A classifier needs memory for every class of every document. A field of titles, each a class of
# its own, must not exhaust it.
MAX_CLASSES = 1000
POOLED_RANKINGS = tuple(RANKINGS)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A document to label, with the classifier's guesses and the size of its bucket.

    `guesses` holds (label, probability), likeliest first. `bucket` is the number of documents that
    have the same code.
    """

    document: StoredDocument
    guesses: tuple[tuple[str, float], ...]
    bucket: int


@dataclass(frozen=True, slots=True)
class LabelledPool:
    """Documents with their vectors, the pool that they form, and the names of its classes."""

    vectors: DocumentVectors
    pool: Pool
    classes: tuple[str, ...]


def known_labels(
    documents: Sequence[StoredDocument],
    agreed: Mapping[str, tuple[str, ...]],
    label_field: str | None,
) -> dict[str, tuple[str, ...]]:
    """Return labels by document id: those in `agreed`, else those in the payload's `label_field`.

    Raises:
        InputError: if the field of a document holds something that is not a label.
    """
    known: dict[str, tuple[str, ...]] = {}
    if label_field is not None:
        for document in documents:
            if labels := labels_of(document.payload, label_field):
                known[document.id] = labels
    known.update(agreed)
    return known


def labelled_pool(
    collection: Collection,
    cache: VectorCache,
    agreed: Mapping[str, tuple[str, ...]],
    label_field: str | None = None,
) -> LabelledPool:
    """Return the documents to choose from, with the labels so far.

    `agreed` has the labels that people agree on, by id, as
    :func:`~hummingbit.index.store.annotations.agreed_labels` returns them. Of several labels of a
    document, the first is its class. Of more than 1,000 classes, only the most frequent are used,
    and documents of the others are excluded.

    Raises:
        InputError: as :func:`known_labels`.
        StoreError: if the collection cannot be read.
    """
    vectors = cache.of(collection, agreed)
    known = known_labels(vectors.documents, agreed, label_field)
    first_labels = [next(iter(known.get(document.id, ())), None) for document in vectors.documents]
    counts = Counter(label for label in first_labels if label is not None)
    frequent = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_CLASSES]
    names = tuple(sorted(frequent))
    numbers = {name: number for number, name in enumerate(names)}
    labelled = [row for row, label in enumerate(first_labels) if label in numbers]
    rare = [
        row for row, label in enumerate(first_labels) if label in counts and label not in numbers
    ]
    pool_ = Pool(
        vectors.vectors,
        vectors.buckets,
        labelled=np.array(labelled, dtype=np.int64),
        classes=np.array([numbers[label] for label in first_labels if label in numbers], np.int64),
        n_classes=len(names),
        excluded=np.array(rare, dtype=np.int64),
    )
    return LabelledPool(vectors, pool_, names)


def suggest_documents(
    collection: Collection,
    cache: VectorCache,
    n: int,
    method: str,
    *,
    label_field: str | None = None,
    who: str | None = None,
    without: Sequence[str] = (),
) -> tuple[list[Suggestion], LabelledPool]:
    """Return at most `n` documents to label next, the most useful first, and their pool.

    Documents that anybody has labelled are left out, and so are the ids in `without`, such as those
    that somebody skipped. With :data:`SECOND_OPINION`, the documents are those that others labelled
    and `who` did not, those with the least likely labels first.

    Raises:
        InputError: if `n` is not from 1 to :data:`MAX_SUGGESTED`, if `method` is not in
            :data:`SUGGESTION_METHODS`, or as :func:`known_labels`.
        StoreError: if the collection cannot be read.
    """
    if not 1 <= n <= MAX_SUGGESTED:
        raise InputError("n", f"is {n}; it must be from 1 to {MAX_SUGGESTED:,}")
    _check_method(method, SUGGESTION_METHODS)
    records = collection.annotations.labels()
    begin_stage(f"reading {counted(len(collection), 'document')}")
    labelled = labelled_pool(collection, cache, agreed_labels(records), label_field)
    documents, pool_ = labelled.vectors.documents, labelled.pool
    begin_stage(f"choosing {n:,} of them by {method}")
    excluded_ids = {*without, *(record.id for record in records)}
    if method == SECOND_OPINION:
        excluded_ids = {*without, *(record.id for record in records if record.who == who)}
        labelled_by_others = {record.id for record in records if record.who != who}
        likelihood = np.ones(len(documents))
        if pool_.probabilities is not None:
            likelihood[pool_.labelled] = pool_.probabilities[pool_.labelled, pool_.classes]
        order = np.argsort(likelihood, kind="stable").tolist()
        rows = [row for row in order if documents[row].id in labelled_by_others]
    else:
        excluded_rows = [
            row for row, document in enumerate(documents) if document.id in excluded_ids
        ]
        excluded = np.union1d(pool_.excluded, np.array(excluded_rows, dtype=np.int64))
        pool_ = replace(pool_, excluded=excluded)
        rows = suggest(pool_, n, method).tolist()
    rows = [row for row in rows if documents[row].id not in excluded_ids][:n]
    sizes = np.bincount(labelled.vectors.buckets)
    suggestions = []
    for row in rows:
        guesses: tuple[tuple[str, float], ...] = ()
        if pool_.probabilities is not None:
            of_row = pool_.probabilities[row]
            best = np.argsort(-of_row, kind="stable")[:MAX_GUESSES].tolist()
            guesses = tuple((labelled.classes[c], float(of_row[c])) for c in best)
        bucket = int(sizes[labelled.vectors.buckets[row]])
        suggestions.append(Suggestion(documents[row], guesses, bucket))
    return suggestions, labelled


def suggestions_to_json(
    method: str, suggestions: Sequence[Suggestion], labelled: LabelledPool
) -> dict[str, Any]:
    """Return the fields of :class:`hummingbit.service.schemas.labels.SuggestedLabels`."""
    documents = [
        {
            "id": suggestion.document.id,
            "text": suggestion.document.text,
            "payload": dict(suggestion.document.payload),
            "code": suggestion.document.code,
            "guesses": [{"label": label, "probability": p} for label, p in suggestion.guesses],
            "bucket": suggestion.bucket,
        }
        for suggestion in suggestions
    ]
    return {
        "method": method,
        "documents": documents,
        "labelled": len(labelled.pool.labelled),
        "classes": list(labelled.classes),
    }


def pool_answers(
    collection: Collection, query: str, depth: int, method: str, judged_ids: Sequence[str] = ()
) -> tuple[list[PooledDocument], Mapping[str, int]]:
    """Pool the first `depth` hits of each of :data:`POOLED_RANKINGS`, or those by words alone.

    Documents with an id in `judged_ids` are left out. Returns the pool, and how many hits each
    ranking found.

    Raises:
        InputError: if `method` is not in :data:`POOLING_METHODS`, `depth` or `query` is not valid,
            or the collection takes no texts.
    """
    _check_method(method, POOLING_METHODS)
    encoder = collection.encoder
    if collection.n_bits and (encoder is None or encoder.kind != "text"):
        raise InputError("query", f"collection {collection.name!r} takes no texts")
    encoded = collection.encode_queries([Query(text=query)])
    rankings = {}
    for ranking in POOLED_RANKINGS if collection.n_bits else (BM25,):
        results = collection.search(encoded, depth, ranking=ranking, with_cursor=False)
        rankings[ranking] = [hit.id for hit in results.hits[0]]
    excluded_ids = set(judged_ids)
    pooled = [document for document in pool(rankings, method) if document.id not in excluded_ids]
    return pooled, {name: len(ids) for name, ids in rankings.items()}


def _check_method(method: str, methods: Sequence[str] | Mapping[str, str]) -> None:
    if method not in methods:
        known = ", ".join(methods)
        raise InputError("method", f"is {method[:40]!r}; it must be one of {known}")
