"""The responses of the service as types, which the clients share. They are plain dictionaries.

Without pydantic, so that a client imports nothing else. A response lacks a field that is
``NotRequired`` where it says nothing.
"""

from __future__ import annotations

import sys
from typing import Any, Literal, NotRequired

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads no other

CodeFormat = Literal["hex", "base64", "bits"]
JobState = Literal["queued", "running", "done", "failed", "cancelled"]
KeepVectors = Literal["float32", "float16", "int8", "none"]
Ranking = Literal["hamming", "asymmetric", "bm25", "hybrid"]
FacetsOver = Literal["words", "best", "found"]
RankingUsed = Literal["hamming", "asymmetric", "bm25", "hybrid", "average_vector", "best_score"]


# What several responses have.


FacetBucket = TypedDict(
    "FacetBucket",
    {
        "count": int,
        "value": NotRequired[str | float | bool],
        "from": NotRequired[float | str],  # which is no name of Python
        "to": NotRequired[float | str],
        "gt": NotRequired[float | str],
        "gte": NotRequired[float | str],
        "lt": NotRequired[float | str],
        "lte": NotRequired[float | str],
    },
)
FacetBucket.__doc__ = """The number of documents with a `value`, in an interval, or in a range.

An interval begins at `from` and ends before `to`.
"""


class FacetResult(TypedDict):
    """The counts of a facet, exact: values by count, intervals ascending, ranges as requested.

    `documents` have a value in the field, and `missing` have none; a document with several values
    counts for each. `distinct` is the number of different values. Intervals without a document are
    left out.
    """

    field: str
    buckets: list[FacetBucket]
    documents: int
    missing: int
    distinct: int


class EncoderName(TypedDict):
    """The encoder that made a collection's codes, by name and by content."""

    name: str
    fingerprint: str


# Collections, documents, aliases and snapshots.


class IndexedFieldsInfo(TypedDict):
    """The payload fields that are indexed; `warnings` name those that no document has, if any."""

    indexed_fields: list[str]
    warnings: NotRequired[list[str]]


class Unavailable(TypedDict):
    """Something that exists but cannot be opened."""

    name: str
    reason: str


class PassagesInfo(TypedDict):
    """How texts are split into passages; null stands for what is left out."""

    words: int
    sentences: int | None
    overlap: int
    longer_than: int | None


class CollectionSummary(TypedDict):
    """A collection; `encoder` and `encoder_kind` are null if its documents come with codes.

    They are null, too, if `n_bits` is 0: words alone find its documents, which have no codes.

    `engine_setting` is the engine it was created with; `ranking` applies to searches that do not
    name one, and so does `hybrid_weight`; `own_hybrid_weight` is null where it is that of the
    encoder. Filters on `indexed_fields` read no payloads. `keep_vectors` is the form in which
    vectors are kept. `passages` says how texts are split; null if they are not. `language` is that
    of the texts for searches by words; null if it was not found yet, or if an earlier version made
    the collection.
    """

    name: str
    n_bits: int
    encoder: EncoderName | None
    encoder_kind: Literal["text", "vector"] | None
    engine_setting: str
    ranking: Ranking
    hybrid_weight: float
    own_hybrid_weight: float | None
    language: str | None
    indexed_fields: list[str]
    keep_vectors: KeepVectors
    passages: PassagesInfo | None
    documents: int
    generation: int


class CreatedCollection(CollectionSummary):
    """A collection; `warnings` says why it has no encoder where it was to have the default one."""

    warnings: NotRequired[list[str]]


class Collections(TypedDict):
    """All collections."""

    collections: list[CollectionSummary]
    unavailable: list[Unavailable]


class BitBalance(TypedDict):
    """Over all bits: the share of documents in which a bit is 1, or the entropy of a bit."""

    least: float
    mean: float
    most: float


class CollectionDetail(CollectionSummary):
    """A collection and its codes; an encoder that has collapsed gives few distinct codes.

    In a collection with passages, there are `n_passages`, and the codes are theirs.
    """

    n_passages: int | None
    distinct_codes: int
    largest_share: float | None
    bit_balance: BitBalance | None
    engine: str
    bytes_on_disk: int


class BitCorrelation(TypedDict):
    """Pearson's |r| over all pairs of bits that are not dead."""

    mean: float
    most: float


class CollectionStats(CollectionDetail):
    """A collection's sizes, its search engine and why it was chosen, and its codes' diversity.

    `entropy` is that of the distribution of documents over codes, in bits; `bit_entropy` is that of
    each bit. `dead_bits` never change; bit 0 is the first of the code. `occupancy` is the number of
    codes that belong to 1, to 2–3, to 4–7, … documents, by the lower bound.
    """

    engine_reason: str
    entropy: float | None
    bit_entropy: BitBalance | None
    dead_bits: list[int]
    bit_correlation: BitCorrelation | None
    occupancy: dict[str, int]
    problems: list[str]


class Upserted(TypedDict):
    """The number of documents written to disk; a repeated id counts once.

    `replaced` says how many of them replaced a document.
    """

    upserted: int
    generation: int
    replaced: int


class StoredDocument(TypedDict):
    """A document as it is stored."""

    id: str
    code: str
    text: str | None
    vector: list[float] | None
    payload: dict[str, Any]


class FacetsAnswer(TypedDict):
    """The counts of each facet, in the order of the request, over `documents`.

    If no document passes the filter, or none has the field of a facet, `warnings` may say so.
    """

    facets: list[FacetResult]
    documents: int
    generation: int
    warnings: NotRequired[list[str]]


class DocumentPage(TypedDict):
    """Documents; `next_cursor` is null on the last page.

    If no document has a field to sort by, `warnings` says so.
    """

    documents: list[StoredDocument]
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class FoundDocuments(TypedDict):
    """The documents found, in the order of the request, and the ids that do not exist."""

    documents: list[StoredDocument]
    missing: list[str]


class Count(TypedDict):
    """The number of documents; if none passes the filter, `warnings` may say why."""

    count: int
    warnings: NotRequired[list[str]]


class Deleted(TypedDict):
    """The number of documents deleted; the deletion is on disk.

    If no document passes the filter, `warnings` may say why.
    """

    deleted: int
    generation: int
    warnings: NotRequired[list[str]]


class PayloadsUpdated(TypedDict):
    """How many documents were selected, and how many of their payloads changed; they are on disk.

    If no document passes the filter, `warnings` may say why.
    """

    matched: int
    updated: int
    generation: int
    warnings: NotRequired[list[str]]


class LineError(TypedDict):
    """A line that was refused; `line` counts from 1.

    `id` is null if the line has none, and cut if it is too long.
    """

    line: int
    id: str | None
    status: int
    code: str
    detail: str
    errors: list[dict[str, str]]


class BulkAnswer(TypedDict):
    """What was done with the lines; what was written is on disk.

    `unchanged` counts the lines that were skipped, if that was requested. The first thousand errors
    are listed, and `errors_left_out` counts the others.
    """

    received: int
    written: int
    unchanged: int
    failed: int
    generation: int
    errors: list[LineError]
    errors_left_out: int


class Alias(TypedDict):
    """A second name of a collection."""

    alias: str
    collection: str


class Aliases(TypedDict):
    """All aliases, sorted."""

    aliases: list[Alias]


class CodeBucket(TypedDict):
    """A code, its most frequent label and the share that has it; both are null without labels."""

    code: str
    documents: int
    label: str | None
    purity: float | None


class BucketPurity(TypedDict):
    """How far documents of one code share a label, over codes with two labelled ones or more.

    `mean` weighs codes by their labelled documents; `by_chance` is the share of the most frequent
    label. `histogram` counts labelled documents by the purity of their code, in ten equal steps.
    """

    labelled: int
    in_shared_codes: int
    mean: float | None
    by_chance: float
    histogram: list[int]


class CodesInfo(TypedDict):
    """The bits and buckets of a collection, as of `generation`.

    `ones` is the share of documents in which each bit is 1; bit 0 is the first of the code.
    `correlation` is Pearson's r between bits, of every `step`-th bit where there are more than
    128; 0 for bits that never change. `alone` counts documents whose code no other document has.
    `entropy` is that of the distribution of documents over codes, in bits. `largest` are the codes
    with the most documents; `purity` is null if no document is labelled.
    """

    generation: int
    n_bits: int
    documents: int
    distinct_codes: int
    alone: int
    entropy: float | None
    ones: list[float]
    correlation: list[list[float]]
    step: int
    largest: list[CodeBucket]
    purity: BucketPurity | None


class SnapshotInfo(TypedDict):
    """A snapshot; `bytes` and `sha256` describe the file to download."""

    id: str
    collection: str
    n_bits: int
    encoder: str | None
    encoder_fingerprint: str | None
    generation: int
    documents: int
    created: str
    bytes: int
    sha256: str


class UnavailableSnapshot(TypedDict):
    """A snapshot whose record cannot be read; it can be deleted."""

    id: str
    reason: str


class SnapshotList(TypedDict):
    """Snapshots, oldest first, and those that cannot be read."""

    snapshots: list[SnapshotInfo]
    unavailable: list[UnavailableSnapshot]


# Searches.


class Highlight(TypedDict):
    """A passage of plain text; positions count Unicode code points.

    `start` is its position in the text; `marks` are the [start, end) positions in the passage of
    the query's terms.
    """

    passage: str
    start: int
    marks: list[tuple[int, int]]


class Passage(TypedDict):
    """The part of a text that ranked it; `start` is its position, in Unicode code points."""

    text: str
    start: int


class SearchHit(TypedDict):
    """A document found; the fields below `score` are present on request.

    `distance` is the Hamming distance between the codes; null if words alone rank. A higher
    `score` is better: 1 − distance / n_bits with the ranking hamming; the share of the query's
    weight in the bits that agree with asymmetric; the cosine if rescored by vectors. A lower
    `rerank_score` is better: Σ_b |p_b − c_b|, where p_b is the query's probability of bit b and c_b
    the stored bit. `confidence` is the probability that the hit answers the query.
    `differing_bits` counts from 0, the first bit of the code.
    """

    id: str
    distance: int | None
    score: float
    payload: NotRequired[dict[str, Any]]
    text: NotRequired[str | None]
    highlight: NotRequired[Highlight | None]
    passage: NotRequired[Passage | None]
    code: NotRequired[str]
    rerank_score: NotRequired[float]
    confidence: NotRequired[float]
    differing_bits: NotRequired[list[int]]


class HitGroup(TypedDict):
    """The hits that share a value of the field of `group_by`, best first."""

    id: str | float | bool
    hits: list[SearchHit]


class QueryTerm(TypedDict):
    """A term of the query's text, its weight, and how the code would change without it.

    `influence` is Σ_b |p_b − p′_b|, the probabilities of the bits with the term and without.
    """

    term: str
    weight: float
    influence: float
    flipped_bits: list[int]


class SearchResponse(TypedDict):
    """Hits by the score of the `ranking`, best first; equal scores in the order of insertion.

    `took_ms` is the time in the collection, encoding included; in a batch, that of all
    searches. `ties_cut` tells whether documents with the last hit's score were left out. With
    `rerank` the same hits are ordered by `rerank_score`, and `reranked` is true. With `rescore`
    the scores are those of `rescored_by`, of at most `candidates` documents, and there is no
    cursor. For a text, `recognized_terms` counts its distinct terms that the encoder knows,
    where codes rank; if it is 0, they find no hits. `corrected` lists the words that neither a
    document nor the encoder knows, each with the word that was searched for in its place.
    `expanded` has words of the query, each with words that were searched for besides: those
    near in meaning, or for a word that no document has those that begin with it. `next_cursor`
    is present on request, and null on the last page. If a search with a filter finds nothing,
    `warnings` may say why: no document has a field of the filter, or the field holds values of
    another kind. It also says which words look like a condition, such as `year:1990`, and are
    none, because no document has the field. With `group_by`, the hits are in `groups`, by the
    best hit of each, and `hits` is empty. `facets_over` says which documents `facets` count:
    those with a word of the query, the best `facet_depth`, or all that the search finds.
    """

    hits: list[SearchHit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ranking: RankingUsed
    ties_cut: bool
    took_ms: float
    recognized_terms: NotRequired[int | None]
    corrected: NotRequired[list[tuple[str, str]]]
    expanded: NotRequired[dict[str, list[str]]]
    reranked: NotRequired[bool]
    rescored_by: NotRequired[str]
    candidates: NotRequired[int]
    next_cursor: NotRequired[str | None]
    query_code: NotRequired[str]
    query_terms: NotRequired[list[QueryTerm]]
    warnings: NotRequired[list[str]]
    groups: NotRequired[list[HitGroup]]
    facets: NotRequired[list[FacetResult]]
    facets_over: NotRequired[FacetsOver]


class SearchBatchResponse(TypedDict):
    """One result for each search, in the same order."""

    results: list[SearchResponse]


class Completions(TypedDict):
    """Queries that begin like a text, with its last word completed."""

    completions: list[str]


# Encoders and embeddings.


class EncoderSummary(TypedDict):
    """An encoder; `dimension` is the length of its input vectors, `trained_on` its description."""

    name: str
    fingerprint: str
    n_bits: int
    kind: Literal["text", "vector"]
    dimension: int | None
    trained_on: Any


class EncoderDetail(EncoderSummary):
    """An encoder, all of its metadata, and the figures that training measured.

    `metadata` and `figures` are copied from the artifact; `layers` are the sizes of its network,
    `terms` is the size of its vocabulary.
    """

    code_size: int
    terms: int | None
    layers: list[int]
    metadata: dict[str, Any]
    figures: dict[str, Any]


class EncodeResponse(TypedDict):
    """Packed codes in hexadecimal, in the order of the inputs."""

    codes: list[str]
    n_bits: int
    encoder: EncoderName


class EncodedInputs(TypedDict):
    """Codes in the order of the inputs; `learned` says whether the encoder learned from each.

    Bit 0 is the first digit of `bits` and the most significant bit of the first byte of `hex` and
    `base64`.
    """

    codes: list[str]
    learned: list[bool]
    format: CodeFormat
    bit_order: Literal["most significant bit first"]
    n_bits: int
    encoder: EncoderName


class Encoders(TypedDict):
    """All encoders."""

    encoders: list[EncoderSummary]
    unavailable: list[Unavailable]


class Embedding(TypedDict):
    """The embedding of the input at `index`."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | list[int] | str


class Usage(TypedDict):
    """The number of words in the input, separated by white space; nothing is charged."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(TypedDict):
    """The embeddings, in the order of the input."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Model(TypedDict):
    """An encoder of texts, as OpenAI's interface lists models."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["hummingbit"]


class Models(TypedDict):
    """The encoders of texts."""

    object: Literal["list"]
    data: list[Model]


# Jobs.


class VerificationInfo(TypedDict):
    """The number of documents checked, and the problems found, one sentence each."""

    documents: int
    problems: list[str]


class CompactionInfo(TypedDict):
    """The space that a collection took before and takes now; 0 if unknown."""

    bytes_before: int
    bytes_after: int


class JobProgress(TypedDict):
    """How far a job is; `total` and `percent` are null while unknown.

    `step` is the current step (copying, encoding, catching up, …); null if the job is not running.
    """

    step: str | None
    done: int
    total: int | None
    percent: float | None


class JobError(TypedDict):
    """Why a job failed."""

    code: str
    detail: str
    errors: list[dict[str, str]]


class JobInfo(TypedDict):
    """A job; `attempts` is more than 1 if the service ended while it ran. Times are in UTC.

    `collection` is empty for an uploaded snapshot.
    """

    id: str
    kind: str
    collection: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: JobProgress
    attempts: int
    created: str
    started: str | None
    finished: str | None
    result: dict[str, Any] | None
    error: JobError | None


class JobList(TypedDict):
    """Jobs, newest first."""

    jobs: list[JobInfo]


class JobStatus(TypedDict):
    """A job by its result: `status` is `done` once there is one; `error` says why it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None


class EvaluationStatus(JobStatus):
    """An evaluation in the background: `report` once it is done, `error` if it failed."""

    report: dict[str, Any] | None


class RankingMeans(TypedDict):
    """Means over the queries: `metrics` as served, `expected` tie-averaged.

    `best` and `worst` are the extremes that the order of ties could give.
    """

    metrics: dict[str, float]
    expected: dict[str, float]
    best: dict[str, float]
    worst: dict[str, float]


class WeightMeans(TypedDict):
    """Means over the queries of `hybrid` with one weight of codes, as served."""

    codes_weight: float
    metrics: dict[str, float]


class EvaluateResponse(RankingMeans):
    """Means over the queries.

    `rankings` has those of each ranking, and the fields beside it repeat those of `ranking`:
    Hamming if it was measured, or else the first. `codes_weights` has those of `hybrid` by weight
    of codes, if the request has weights. `unlabelled` counts the documents without a label.
    `warning` is set if the encoder learned from all of the queries; `served_ranking` is that of a
    search that names none.
    """

    warning: str | None
    ranking: str
    served_ranking: str
    rankings: dict[str, RankingMeans]
    codes_weights: list[WeightMeans] | None
    queries: int
    documents: int
    unlabelled: int
    queries_without_relevant: int
    distinct_codes: int | None
    notes: list[str]
    n_bits: int
    encoder: EncoderName | None
    took_ms: float


class TimeScale(TypedDict):
    """The values of the time field: numbers, or dates as ISO 8601 in UTC.

    The scale reaches from `start` to `end`. A hundredth of the documents with a value lies before
    it and another after it, down to `least` and up to `most`.
    """

    field: str
    kind: Literal["number", "date"]
    documents: int
    start: float | str
    end: float | str
    least: float | str
    most: float | str


class MapDescription(TypedDict):
    """A finished map of the collection at `generation`.

    `labels` are the 200 most frequent of the label field, and `label_documents` the number of
    documents of each; `given_labels` are those that people gave, if they agree. `time` is present
    if the map was drawn with a time field. `learned_documents` is the number of documents that the
    encoder learned from, or null if it records none.
    """

    collection: str
    generation: int
    n_bits: int
    method: Literal["pca", "tsne", "chl"]
    label_field: str
    seed: int
    documents: int
    distinct_codes: int
    points: int
    labels: list[str]
    label_documents: list[int]
    given_labels: list[str]
    given_label_documents: list[int]
    time: TimeScale | None
    learned_documents: int | None


class MapStatus(JobStatus):
    """A map that a job draws: `map` once it is done, `error` if it failed."""

    map: MapDescription | None


class Cluster(TypedDict):
    """A cluster of `size` documents; `ids` are the 1,000 oldest of them, oldest first.

    `newest` is the one written last; null if an earlier version found the cluster.
    """

    size: int
    ids: list[str]
    newest: NotRequired[str | None]


class Duplicates(JobStatus):
    """Near-duplicates of a collection: a page of clusters, by their oldest documents.

    `clusters` counts all of them. Until `status` is done, it is null and the page is empty.
    """

    collection: str
    clusters: int | None
    page: list[Cluster]


# The service itself.


class Access(TypedDict):
    """What the key of the request may do here: the roles `write` and `admin` include `read`.

    A `read_only` service takes no writes, whatever the role. `limits` are the settings of the
    service that bound a request. `rankings` are those that searches can name.
    """

    role: Literal["read", "write", "admin"]
    read_only: bool
    version: str
    limits: dict[str, int]
    rankings: list[str]


class Root(TypedDict):
    """Where to start."""

    service: str
    openapi: str
    docs: str
    console: str
    collections: str


class Status(TypedDict):
    """The service responds."""

    status: str


class Ready(TypedDict):
    """Everything in the data folder can be opened.

    `kernel` is the code path of the compiled kernel; null if there is none, and FAISS scans codes.
    """

    status: str
    collections: list[str]
    encoders: list[str]
    kernel: str | None


# Labels and judgements.


class AnnotationsWritten(TypedDict):
    """The number of records that were changed, added or removed; the changes are on disk."""

    changed: int
    generation: int


class Imported(TypedDict):
    """The records read and changed; `unknown` counts those of documents that do not exist."""

    labels: int
    judgements: int
    changed: int
    unknown: int
    generation: int


class LabelRecord(TypedDict):
    """A person's labels of a document; `when` is in UTC."""

    id: str
    labels: list[str]
    grade: int
    who: str
    when: str


class LabelPage(TypedDict):
    """Labels by (id, who); `next_cursor` is null on the last page."""

    labels: list[LabelRecord]
    next_cursor: str | None


class JudgementRecord(TypedDict):
    """A person's judgement of an answer to a query; `when` is in UTC."""

    query: str
    id: str
    grade: int
    who: str
    when: str


class JudgementPage(TypedDict):
    """Judgements by (query, id, who); `next_cursor` is null on the last page."""

    judgements: list[JudgementRecord]
    next_cursor: str | None


class Guess(TypedDict):
    """A label, and its probability by a classifier trained on the labels so far."""

    label: str
    probability: float


class ShownDocument(TypedDict):
    """A document as a person sees it who labels or judges."""

    id: str
    text: str | None
    payload: dict[str, Any]
    code: str


class SuggestedDocument(ShownDocument):
    """A document to label; `bucket` is the number of documents with its code."""

    guesses: list[Guess]
    bucket: int


class SuggestedLabels(TypedDict):
    """Documents to label next, the most useful first; `classes` are the labels so far."""

    method: str
    documents: list[SuggestedDocument]
    labelled: int
    classes: list[str]


class LabelCount(TypedDict):
    """A label, and the number of documents that have it."""

    label: str
    documents: int


class Person(TypedDict):
    """The number of documents that a person labelled, and of answers that they judged."""

    who: str
    labels: int
    judgements: int


class AgreementInfo(TypedDict):
    """How far two people agree; `kappa` is Cohen's, null if both always gave the same answer."""

    who: list[str]
    on: str
    items: int
    observed: float
    kappa: float | None


class GainInfo(TypedDict):
    """What the next label is expected to gain.

    `accuracy` is that of a fast classifier of the labels in cross-validation, `per_label` what one
    more label adds by the power law through `curve`, and `labels_to_one_percent` the number of
    labels until the accuracy rises by 0.01, null if the curve no longer rises.
    """

    accuracy: float
    per_label: float
    labels_to_one_percent: int | None
    curve: list[tuple[int, float]]


class LabelStats(TypedDict):
    """Counts, agreement, and what the next label is expected to gain, null with too few labels."""

    documents: int
    labelled: int
    labels: list[LabelCount]
    judgements: int
    queries: int
    people: list[Person]
    agreement: list[AgreementInfo]
    expected_gain: GainInfo | None


class PooledDocument(ShownDocument):
    """A document to judge, how informative its judgement is, and its rank in each ranking."""

    weight: float
    ranks: dict[str, int]


class JudgementPool(TypedDict):
    """Answers to judge, the most informative first; `rankings` counts those of each ranking."""

    query: str
    method: str
    documents: list[PooledDocument]
    rankings: dict[str, int]
    judged: int


class TakenBack(Alias):
    """The alias, and the old collection that it names again; the new collection stays."""
