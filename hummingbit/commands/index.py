"""``hummingbit index ACTION``, ``alias`` and ``reindex``: build and maintain collections."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from hummingbit.commands.fusion import ENCODER, add_weight, check_weight, fit
from hummingbit.commands.options import (
    STANDARD,
    Actions,
    BitsOption,
    OptionError,
    add_action,
    add_command,
    add_file,
    add_filter,
    add_folder,
    add_label_field,
    add_layout,
    add_option,
    add_passages,
    add_reading,
    add_service,
    filling,
    layout_of,
    open_collection,
    open_collections,
    open_folder,
    open_input,
    open_output,
    open_workbench,
    read,
    read_filter,
    read_json,
    read_time,
    service_at,
    source_help,
)
from hummingbit.commands.printing import (
    add_json,
    print_facets,
    print_json,
    print_result,
    print_warnings,
    reindexed_line,
)
from hummingbit.deferred import deferred_imports
from hummingbit.encoder.limits import PACKINGS
from hummingbit.encoder.recipes import DOCUMENT_METHODS
from hummingbit.foundation.errors import InputError, counted
from hummingbit.foundation.slices import available_cores, begin_stage, count_in_stage
from hummingbit.index.names import (
    AUTO,
    CALENDAR_INTERVALS,
    DEFAULT_BUCKETS,
    FLOAT32,
    FORMS,
    INDEX_TYPES,
    MAX_K,
    NONE,
    RANKING_SUMMARIES,
    STORES,
    VECTOR_TYPES,
)

with deferred_imports():
    import numpy as np

    from hummingbit.corpus.document import Document, with_expiry
    from hummingbit.corpus.expiry import EXPIRES_AT
    from hummingbit.corpus.readers import count_documents
    from hummingbit.encoder.codes import code_to_hex
    from hummingbit.encoder.encoder import Encoder
    from hummingbit.encoder.text_features import TextFeatures
    from hummingbit.index.backend import AnyCollection, CollectionBackend
    from hummingbit.index.catalog import (
        NO_ENCODER,
        AddAlias,
        AliasAction,
        RemoveAlias,
        check_name,
        encoder_by_dimensions,
    )
    from hummingbit.index.collection import pages_of
    from hummingbit.index.data_folder import DataFolder
    from hummingbit.index.duplicates import DuplicateCriteria, find_duplicates
    from hummingbit.index.errors import CollectionExists, UnknownCollection, UnknownDocument
    from hummingbit.index.facets import Facet, FacetResult, facet_to_json, parse_sort
    from hummingbit.index.faiss_files import (
        IDS_SUFFIX,
        documents_of_codes,
        read_faiss,
        read_ids,
        write_faiss,
    )
    from hummingbit.index.filters import Filter
    from hummingbit.index.ingestion import CollectionFieldTypes
    from hummingbit.index.languages import DEFAULT_LANGUAGE
    from hummingbit.index.passages import Passages
    from hummingbit.index.payloads import PayloadUpdate, select_fields
    from hummingbit.index.records import IngestReport, Query, StoredDocument
    from hummingbit.index.search import explain_no_order
    from hummingbit.index.transfer import (
        Export,
        Exported,
        PointSelection,
        code_length,
        export_collection,
        import_documents,
        read_points,
    )

if TYPE_CHECKING:
    from hummingbit.remote import RemoteFolder


# Prints the result of an ingestion.


def _end_ingestion(
    args: argparse.Namespace,
    folder: DataFolder | RemoteFolder,
    collection: AnyCollection,
    report: IngestReport,
    *,
    is_new: bool = False,
) -> int:
    """Print the result of writing documents to a collection; return 1 if some were refused.

    A new collection of which every document was refused is dropped.
    """
    name, total = collection.name, len(collection)
    rate = report.documents / report.seconds if report.seconds else 0.0
    unchanged = f"{report.unchanged:,} of them unchanged, " if report.unchanged else ""
    later = "replaced by a later document with the same id"
    repeated = f"{report.repeated:,} of them {later}, " if report.repeated else ""
    result = {
        "collection": name,
        "given": report.documents,
        "unchanged": report.unchanged,
        "repeated": report.repeated,
        "refused": report.refused,
        "seconds": report.seconds,
        "documents": total,
        "generation": report.generation,
    }
    print_result(
        args,
        result,
        f"{name}: {counted(report.documents, 'document')} in {report.seconds:.1f} s"
        f" ({rate:,.0f} a second), {unchanged}{repeated}{total:,} in all,"
        f" generation {report.generation}",
    )
    if not report.refused:
        return 0
    print(f"{args.collection}: {counted(report.refused, 'document')} refused", file=sys.stderr)
    if is_new and not total:
        folder.drop_collection(collection.name)
    return 1


def _print_refused(id_: str, reason: str) -> None:
    print(f"refused: {id_}: {reason}", file=sys.stderr)


# ``hummingbit index build|add|get|count|delete``: the documents of a collection.


def configure_documents(actions: Actions) -> None:
    """Add the actions."""
    build = add_action(actions, "build", run_build, "build a collection from documents")
    kind = build.add_mutually_exclusive_group()
    add_option(
        kind,
        "--encoder NAME",
        "an encoder of the data folder, or sign, whose bits are the signs of vectors"
        " (default: that of hummingbit-models)",
    )
    add_option(
        kind,
        "--no-encoder",
        "search the texts by words alone; index reindex can give them an encoder later",
        dest="bits",
        action="store_const",
        const=0,
    )
    add_option(build, "--dimensions N", "the numbers of a vector, with --encoder sign")
    add_option(
        kind,
        "--bits N",
        "the code length, if the documents bring their own codes",
        action=BitsOption,
    )
    add_option(
        build,
        "--language NAME",
        "the language of the texts for searches by words, such as german; none for texts"
        " without stems (default: found)",
    )
    add_option(
        build,
        "--engine",
        "the search engine; every engine returns the same results (default: %(default)s)",
        choices=INDEX_TYPES,
        default=AUTO,
    )
    add_option(
        build,
        "--index-fields FIELD ...",
        "payload fields to index, so that filters on them need not read the payloads",
    )
    add_option(
        build,
        "--keep-vectors",
        "how vectors are kept on disk: whole, rounded, or not at all (default: %(default)s)",
        choices=FORMS,
        default=FLOAT32,
    )
    add_passages(build)
    add = add_action(
        actions, "add", run_add, "add documents; those with a known id replace the stored ones"
    )
    for action in (build, add):
        action.add_argument("sources", nargs="+", metavar="SOURCE", help=source_help())
        add_reading(action)
        add_option(
            action,
            "--jobs N",
            "encoding processes (default: one per core, here %(default)s)",
            default=available_cores(),
        )
        add_option(
            action,
            "--allow-unknown",
            "accept a corpus even if the encoder knows no word of most of its documents",
        )
        add_option(
            action,
            "--expires WHEN",
            "when the documents expire: after 90s, 15m, 12h or 30d, or at a time (2027-01-31)",
        )
    get = add_action(actions, "get", run_get, "print documents as JSON lines")
    get.add_argument("ids", nargs="+", metavar="ID")
    count = add_action(actions, "count", run_count, "count documents")
    add_filter(count)
    delete = add_action(actions, "delete", run_delete, "delete documents by id or by --filter")
    payload = add_action(
        actions, "payload", run_payload, "change payloads of documents by id or by --filter"
    )
    for action in (delete, payload):
        action.add_argument("ids", nargs="*", metavar="ID")
        add_filter(action)
    add_option(payload, "--set JSON", "give keys these values, such as '{\"reviewed\": true}'")
    add_option(payload, "--merge JSON", "merge objects into objects; null removes a key (RFC 7396)")
    add_option(payload, "--overwrite JSON", "replace the whole payload")
    add_option(payload, "--remove FIELD ...", "remove fields", default=[])
    add_option(
        payload,
        "--expires WHEN",
        "when the documents expire: after 90s, 15m, 12h or 30d, at a time, or never",
    )
    add_option(payload, "--if-generation N", "only if the collection is at generation N")
    scroll = add_action(actions, "scroll", run_scroll, "print documents in order, as JSON lines")
    add_option(
        scroll,
        "--sort FIELD ...",
        "sort by payload fields; FIELD:desc is descending. Documents without one come last",
        default=[],
    )
    add_option(scroll, "--limit N", "the number of documents to print (default: all)")
    add_option(scroll, "--payload-fields FIELD", "print only these fields of payloads", nargs="+")
    add_filter(scroll)
    facets = add_action(actions, "facets", run_facets, "count the values of payload fields")
    facets.add_argument("fields", nargs="+", metavar="FIELD")
    add_option(
        facets,
        "--limit N",
        "the number of values to count, the most frequent (default: %(default)s)",
        default=DEFAULT_BUCKETS,
    )
    widths = facets.add_mutually_exclusive_group()
    add_option(widths, "--interval X", "a histogram of numbers, X wide")
    add_option(
        widths,
        "--calendar-interval",
        "a histogram of dates and times, in UTC",
        choices=CALENDAR_INTERVALS,
    )
    add_filter(facets)
    for action in (build, add, get, count, delete, payload, scroll, facets):
        add_json(action, "the documents as JSON lines" if action is get else "the result as JSON")


def run_build(args: argparse.Namespace) -> int:
    """Create a collection and fill it; if no document gets in, there is no collection."""
    name = args.collection
    with open_collections(args, writable=True) as folder:
        if name in folder.collections():
            hint = "index add extends it, and continues an interrupted build"
            raise CollectionExists(f"collection {name!r} exists; {hint}")
        collection = folder.create_collection(
            name,
            encoder=encoder_by_dimensions(args.encoder, args.dimensions),
            n_bits=args.bits,
            engine=args.engine,
            indexed_fields=args.index_fields,
            keep_vectors=args.keep_vectors,
            passages=Passages.of(args.passages),
            language=args.language,
        )
        if args.encoder is None and args.bits is None and not collection.n_bits:
            print(f"{name}: {NO_ENCODER}", file=sys.stderr)
        with filling(folder, collection, is_new=True):
            report = _ingest(args, collection)
            if not report.refused and not len(collection):
                raise OptionError(f"{', '.join(args.sources)}: there are no documents to index")
        try:
            _check_recognized(args, collection)
        except OptionError:
            folder.drop_collection(name)
            raise
        if args.encoder is None and args.bits is None and collection.n_bits:
            _tell_language(collection)
        return _end_ingestion(args, folder, collection, report, is_new=True)


def _tell_language(collection: AnyCollection) -> None:
    """Say so if the encoder that ships, which nobody named, reads another language."""
    language = collection.language
    if language not in (None, NONE, DEFAULT_LANGUAGE):
        print(
            f"{collection.name}: the texts are {language.capitalize()}, and hummingbit-models knows"
            " English only; --no-encoder searches by words alone, train learns from the texts",
            file=sys.stderr,
        )


def run_add(args: argparse.Namespace) -> int:
    """Add documents in batches; unchanged ones are skipped."""
    with open_collections(args, writable=True) as folder:
        collection = folder.collection(args.collection)
        report = _ingest(args, collection)
        _check_recognized(args, collection)
        return _end_ingestion(args, folder, collection, report)


def run_get(args: argparse.Namespace) -> None:
    """Print stored documents as JSON lines."""
    with open_collection(args, writable=False) as collection:
        for id_, document in zip(args.ids, collection.get_many(args.ids), strict=True):
            if document is None:
                raise UnknownDocument(
                    f"collection {args.collection!r} has no document {id_[:80]!r}"
                )
            print(json.dumps(_to_json(document), ensure_ascii=False))


def run_count(args: argparse.Namespace) -> None:
    """Print the number of documents, or of those that match the filter."""
    filter_ = read_filter(args)
    with open_collection(args, writable=False) as collection:
        begin_stage("filtering documents")
        documents = collection.count(filter_)
        warnings = [] if documents else collection.explain_no_hits(filter_)
    result = {"collection": args.collection, "documents": documents}
    print_result(args, result, str(documents), warnings)


def _read_selection(args: argparse.Namespace) -> Filter | None:
    """Return the filter that selects documents; None if ids do.

    Raises:
        OptionError: if neither does, or both do.
    """
    filter_ = read_filter(args)
    if (filter_ is None) == (not args.ids):
        raise OptionError("ID: give either ids or --filter")
    return filter_


def run_delete(args: argparse.Namespace) -> None:
    """Delete documents; unknown ids are ignored."""
    filter_ = _read_selection(args)
    with open_collection(args, writable=True) as collection:
        begin_stage("deleting documents")
        if filter_ is None:
            deleted = collection.delete(args.ids).deleted
        else:
            deleted = collection.delete_where(filter_).deleted
        warnings = [] if deleted else collection.explain_no_hits(filter_)
        left = len(collection)
    result = {"collection": args.collection, "deleted": deleted, "documents": left}
    line = f"{args.collection}: {counted(deleted, 'document')} deleted; {left:,} in all"
    print_result(args, result, line, warnings)


def run_payload(args: argparse.Namespace) -> None:
    """Change payloads; unknown ids are ignored."""
    filter_ = _read_selection(args)
    changes = {
        name: read_json(f"--{name}", getattr(args, name)) for name in ("set", "merge", "overwrite")
    }
    remove, expires = args.remove, args.expires
    if expires == "never":
        remove, expires = [*remove, EXPIRES_AT], None
    time = None if expires is None else read_time("--expires", expires).isoformat()
    update = PayloadUpdate.of(
        {
            "ids": args.ids or None,
            "filter": filter_,
            **changes,
            "remove": remove or None,
            "expires_at": time,
        }
    )
    with open_collection(args, writable=True) as collection:
        begin_stage("changing payloads")
        result = collection.update_payloads([update], args.if_generation)
        warnings = [] if result.matched else collection.explain_no_hits(filter_)
    line = f"{counted(result.updated, 'payload')} changed of {counted(result.matched, 'document')}"
    answer = {"collection": args.collection, **result._asdict()}
    print_result(args, answer, f"{args.collection}: {line}", warnings)


def run_scroll(args: argparse.Namespace) -> None:
    """Print documents as JSON lines, in the order of fields or of insertion."""
    filter_, sort = read_filter(args), parse_sort(args.sort)
    with open_collection(args, writable=False) as collection:
        documents = itertools.chain.from_iterable(pages_of(collection, filter_, sort))
        for position, document in enumerate(itertools.islice(documents, args.limit)):
            if sort and not position:
                print_warnings(explain_no_order(collection, sort, document.payload))
            record = _to_json(document)
            if args.payload_fields is not None:
                record["payload"] = select_fields(document.payload, args.payload_fields)
            print(json.dumps(record, ensure_ascii=False))


def run_facets(args: argparse.Namespace) -> None:
    """Print how many documents have each value, or are in each interval."""
    filter_ = read_filter(args)
    facets = [
        Facet(field, args.limit, args.interval, args.calendar_interval) for field in args.fields
    ]
    with open_collection(args, writable=False) as collection:
        answer = collection.ask("facets", {"facets": [*map(facet_to_json, facets)]}, filter_)
    if args.json:
        print_json(answer)
        return
    print_warnings(answer.get("warnings", ()))
    print_facets([FacetResult(**facet) for facet in answer["facets"]])


def _ingest(args: argparse.Namespace, collection: AnyCollection) -> IngestReport:
    if args.jobs < 1:
        raise OptionError(f"--jobs is {args.jobs}; it must be at least 1")
    types = CollectionFieldTypes(collection)
    # Repeated ids are allowed: checking them would take memory for every document.
    documents: Iterable[Document] = itertools.chain.from_iterable(
        read(args, source, unique_ids=False, field_types=types) for source in args.sources
    )
    if args.expires is not None:
        expiry = read_time("--expires", args.expires).isoformat()
        documents = (
            replace(document, payload=with_expiry(document.payload, expiry))
            for document in documents
        )
    counts = [count_documents(source) for source in args.sources]
    total = None if None in counts else sum(count or 0 for count in counts)
    n_stored = 0
    with count_in_stage("indexing", total) as advance, _ended_in_order():

        def count(size: int) -> None:
            nonlocal n_stored
            n_stored += size
            advance(size)

        def refuse(id_: str, reason: str) -> None:
            nonlocal n_stored
            n_stored -= 1
            _print_refused(id_, reason)

        try:
            return collection.ingest(documents, jobs=args.jobs, progress=count, refused=refuse)
        except BaseException as error:
            if n_stored > 0:
                stored = counted(n_stored, "document")
                print(
                    f"{collection.name}: {stored} stored; to continue, run"
                    " the same command as index add",
                    file=sys.stderr,
                )
            is_content = isinstance(error, InputError) and error.field in ("text", "vector")
            if is_content and collection.encoder_kind is None:
                hint = "index build --encoder NAME makes a collection that encodes"
                raise OptionError(f"{error}; {hint}") from None
            raise


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM end the block as an interrupt does, so that its processes are ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    handler = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


CUT_SAMPLE = 1000


def _check_recognized(args: argparse.Namespace, given: AnyCollection) -> None:
    """Warn about documents with no word that the encoder knows; they all have the same code.

    Raises:
        OptionError: if most documents are like that, unless ``--allow-unknown`` is given.
    """
    encoder = given.encoder
    if not isinstance(encoder, Encoder) or not len(given):
        return  # a service encodes by itself
    collection = cast("CollectionBackend", given)
    if not isinstance(encoder.features, TextFeatures):
        _tell_cut(collection, encoder)
        return
    # All of them have the code of the empty text. Other documents may have it too.
    empty = Query(code=code_to_hex(encoder.encode([""])[0]))
    begin_stage("looking for documents without known words")
    unknown, cursor = 0, None
    while True:
        page = collection.search([empty], MAX_K, 0, cursor=cursor, with_text=True)
        texts = [hit.text or "" for hit in page.hits[0]]
        unknown += int((np.diff(encoder.features.count_terms(texts).indptr) == 0).sum())
        (cursor,) = page.next_cursors
        if cursor is None:
            break
    if not unknown:
        return
    sentence = f"{unknown:,} of {len(collection):,} documents hold no word that the encoder knows"
    if 2 * unknown > len(collection) and not args.allow_unknown:
        hint = "train an encoder on these documents, or pass --allow-unknown to keep them"
        raise OptionError(f"{collection.name}: {sentence}; {hint}")
    print(f"{collection.name}: {sentence}; only searches by words find them", file=sys.stderr)


def _tell_cut(collection: CollectionBackend, encoder: Encoder) -> None:
    """Say what share of the texts is longer than a language model reads, unless all are split."""
    if collection.passages is not None or not encoder.is_slow:
        return
    texts = [document.text or "" for document in collection.scroll(CUT_SAMPLE).documents]
    n_cut = sum(encoder.are_cut(texts))
    if n_cut:
        share = f"{n_cut / len(texts):.0%} of the first {counted(len(texts), 'text')}"
        longer = "longer than the model reads, so their ends are not encoded"
        print(f"{collection.name}: {share} are {longer}; see --passages", file=sys.stderr)


def _to_json(document: StoredDocument) -> dict[str, object]:
    vector = None if document.vector is None else document.vector.tolist()
    parts = {"text": document.text, "vector": vector}
    content = {name: value for name, value in parts.items() if value is not None}
    return {"id": document.id, **content, "payload": document.payload, "code": document.code}


# ``hummingbit index duplicates``: near-duplicates in a collection, and deleting them.


def configure_duplicates(actions: Actions) -> None:
    """Add the action."""
    duplicates = add_action(
        actions,
        "duplicates",
        run,
        "list clusters of documents that hardly differ, one on each line",
        with_url=False,
    )
    add_option(
        duplicates,
        "--radius R",
        "the largest number of bits in which the codes of near-duplicates differ",
        type=int,
        required=True,
    )
    add_option(
        duplicates,
        "--confirm J",
        "also compare the texts: the least Jaccard similarity of their shingles, such as 0.5",
        type=float,
    )
    add_option(duplicates, "--shingle N", "terms in a shingle (default: %(default)s)", default=5)
    add_option(duplicates, "--delete", "delete all documents of a cluster but one")
    add_option(
        duplicates,
        "--keep",
        "the document that --delete keeps (default: %(default)s)",
        choices=("oldest", "newest"),
        default="oldest",
    )
    add_json(duplicates, "the clusters and, last, the summary as JSON lines")


def run(args: argparse.Namespace) -> None:
    """Print a cluster a line, as JSON; with ``--delete``, keep only one of each."""
    criteria = DuplicateCriteria(args.radius, args.confirm, args.shingle)
    clusters, others = 0, []
    summary: dict[str, Any] = {"collection": args.collection}
    with open_folder(args, writable=args.delete) as folder:
        collection = folder.collection(args.collection)
        for ids in find_duplicates(collection, criteria):
            print(json.dumps({"ids": ids}, ensure_ascii=False))
            clusters += 1
            others += ids[1:] if args.keep == "oldest" else ids[:-1]
        older = counted(len(others), "document")
        outcome = f"{counted(clusters, 'cluster')}; {older} with an older near-duplicate"
        summary |= {"clusters": clusters, "with_an_older": len(others)}
        if args.delete:
            begin_stage(f"deleting {counted(len(others), 'document')}")
            deleted = collection.delete(others).deleted if others else 0
            outcome += f"; {deleted:,} deleted, {len(collection):,} left"
            summary |= {"deleted": deleted, "documents": len(collection)}
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))
    print(f"{args.collection}: {outcome}", file=sys.stderr)


# ``hummingbit index import --from STORE``: points of other stores into a collection.


OPTIONS = ("encoder", "codes", "bits", "vector_field", "vector_type")
"""Options that do not apply to hummingbit's own exports."""


def add_stores(parser: argparse.ArgumentParser) -> None:
    """Add the options that other stores' files need."""
    group = parser.add_argument_group("files of other stores")
    add_option(group, "--from", "the store that wrote FILE", dest="store", choices=sorted(STORES))
    add_option(
        group,
        "--encoder NAME",
        "build a collection with this encoder, which encodes the texts or the vectors",
    )
    add_option(
        group,
        "--codes",
        "build a collection of codes from the vectors: from the sign of each number, or from"
        " bytes of 0 to 255 (ubinary) or -128 to 127 (binary) that hold packed codes",
        choices=PACKINGS,
    )
    add_option(group, "--bits N", "use the first N bits of codes (default: all)", action=BitsOption)
    add_option(group, "--vector-field NAME", "the vector, if there are several")
    add_option(
        group,
        "--vector-type",
        "the type of a vector whose bytes Milvus wrote to Parquet",
        choices=VECTOR_TYPES,
    )
    add_layout(parser)


def run_import_points(args: argparse.Namespace) -> int:
    """Add the points of a file that another store wrote; create the collection if needed.

    Returns 1 if the file says that more points follow, which it does not hold.
    """
    if args.encoder is not None and args.codes is not None:
        raise OptionError("--codes: cannot be combined with --encoder, which makes the codes")
    if args.file == STANDARD:
        raise OptionError("FILE: is missing; with --from, name a file or a folder")
    incomplete: list[str] = []
    with open_collections(args, writable=True) as folder:
        collection: AnyCollection
        is_new = False
        try:
            collection = folder.collection(args.collection)
            n_bits: int | None = collection.n_bits
        except UnknownCollection:
            is_new = True
            if args.encoder is None and args.codes is None:
                hint = f"to create it, give --encoder NAME or --codes {'|'.join(PACKINGS)}"
                raise OptionError(f"there is no collection {args.collection!r}; {hint}") from None
            n_bits = args.bits
            if args.encoder is not None:
                n_bits = None
            elif n_bits is None:
                selection = _point_selection(args, None, None)
                n_bits = code_length(args.store, Path(args.file), selection)
            collection = folder.create_collection(
                args.collection, encoder=args.encoder, n_bits=n_bits
            )
        with filling(folder, collection, is_new=is_new):
            documents = _documents(args, collection.encoder_kind, collection.n_bits, incomplete)
            with count_in_stage("importing") as advance:
                report = collection.ingest(documents, progress=advance, refused=_print_refused)
        status = _end_ingestion(args, folder, collection, report, is_new=is_new)
    print_warnings(incomplete)
    return 1 if incomplete else status


def _documents(
    args: argparse.Namespace, kind: str | None, n_bits: int, incomplete: list[str]
) -> Iterator[Document]:
    """Read the documents for a collection of an encoder of `kind`, or of codes."""
    if kind is None and args.codes is None:
        packings = "|".join(PACKINGS)
        message = f"--codes: is missing; collection {args.collection!r} has no encoder, so give"
        raise OptionError(f"{message} the format of the codes in the vectors: {packings}")
    if kind is not None and args.codes is not None:
        raise OptionError(
            f"--codes: collection {args.collection!r} has an encoder, which makes them"
        )
    if args.bits is not None and args.bits != n_bits:
        raise OptionError(f"--bits {args.bits}: collection {args.collection!r} has {n_bits} bits")
    selection = _point_selection(args, kind, n_bits)
    path, layout = Path(args.file), layout_of(args)
    return read_points(
        args.store, path, layout, selection, _print_error, incomplete=incomplete.append
    )


def _point_selection(
    args: argparse.Namespace, kind: str | None, n_bits: int | None
) -> PointSelection:
    content: Literal["text", "vector", "code"] = "code"
    if kind is not None:
        content = "text" if kind == "text" else "vector"
    return PointSelection(
        content,
        args.vector_field,
        args.codes,
        n_bits if args.bits is not None else None,
        args.vector_type,
        n_bits if content == "code" else None,
    )


def _print_error(what: str) -> None:
    print(what, file=sys.stderr)


# ``hummingbit index export|import``: copy a collection to a file, or fill one from a file.


def configure_transfer(actions: Actions) -> None:
    """Add the actions."""
    export = add_action(actions, "export", run_export, "write a collection as JSON lines")
    into = add_action(actions, "import", run_import, "fill a collection with an export")
    add_file(
        export, "the file to write, compressed if it ends in .gz or .xz (default: standard output)"
    )
    add_file(
        into,
        "a file that index export wrote, also .gz or .xz (default: standard input);"
        " with --from, what another store wrote; with --from milvus also http://HOST:PORT/NAME, a"
        " collection that an earlier hummingbit kept there",
    )
    codes = "codes as a binary index of FAISS, and the ids"
    add_option(export, "--faiss FILE", f"write the {codes} to FILE.ids")
    add_option(into, "--faiss FILE", f"read the {codes} from FILE.ids, if it exists")
    lists = "with --faiss, an IndexBinaryIVF of N lists (default: an IndexBinaryFlat)"
    add_option(export, "--lists N", lists, type=int)
    add_stores(into)
    add_json(into)


def run_export(args: argparse.Namespace) -> None:
    """Write one generation of the collection."""
    if args.faiss is None:
        if args.lists is not None:
            raise OptionError("--lists: is for --faiss")
    elif args.file != STANDARD:
        raise OptionError(f"{args.file}: is one file too many; --faiss names the file")
    with open_collection(args, writable=False) as collection:
        total = len(collection)
        with (
            count_in_stage("exporting", total) as advance,
            open_output(args.faiss or args.file) as stream,
        ):
            if args.faiss is None:
                exported = export_collection(collection, stream, advance)
            else:
                with open_output(args.faiss + IDS_SUFFIX) as ids:
                    exported = write_faiss(collection, stream, ids, args.lists, advance)
    print(f"{args.collection}: {counted(exported, 'document')} exported", file=sys.stderr)


def run_import(args: argparse.Namespace) -> int:
    """Add the documents of an export, with their codes; create the collection if needed."""
    if args.faiss is not None:
        return run_import_faiss(args)
    if args.store == "milvus" and args.file.startswith(("http://", "https://")):
        return run_import_from_milvus(args)
    if args.store is not None:
        return run_import_points(args)
    _check_no_options(args, "is for files of other stores; name the store with --from")
    with open_input(args.file) as (stream, source):
        return _import(args, Export(stream, source))


def run_import_from_milvus(args: argparse.Namespace) -> int:
    """Add the documents of a collection that an earlier hummingbit kept on a Milvus server."""
    # Most imports do not need it.
    from hummingbit.index.from_milvus import MilvusExport  # noqa: PLC0415

    _check_no_options(args, "is for files; a collection on Milvus has its codes and encoder")
    token = os.environ.get("HUMMINGBIT_MILVUS_TOKEN")
    with MilvusExport(args.file, args.collection, token) as export:
        return _import(args, export)


def _check_no_options(args: argparse.Namespace, reason: str) -> None:
    for name in OPTIONS:
        if getattr(args, name) is not None:
            raise OptionError(f"--{name.replace('_', '-')}: {reason}")


def _import(args: argparse.Namespace, export: Exported) -> int:
    with open_collections(args, writable=True) as folder:
        is_new = args.collection not in {*folder.collections(), *folder.aliases()}
        header = export.header
        collection = folder.collection_for(args.collection, header)
        with (
            filling(folder, collection, is_new=is_new),
            count_in_stage("importing", header.documents) as advance,
        ):
            report = import_documents(collection, export, advance, _print_refused)
        return _end_ingestion(args, folder, collection, report, is_new=is_new)


def run_import_faiss(args: argparse.Namespace) -> int:
    """Add a document for each code of a binary index of FAISS; create the collection if needed."""
    others = {"--from": args.store, **{"--" + name: getattr(args, name) for name in OPTIONS[1:]}}
    given = [option.replace("_", "-") for option, value in others.items() if value is not None]
    if args.file != STANDARD or given:
        what = given[0] if given else args.file
        raise OptionError(f"{what}: cannot be combined with --faiss, which names the file")
    with open_input(args.faiss) as (stream, source):
        found = read_faiss(stream.read(), source)
    ids = None
    if Path(args.faiss + IDS_SUFFIX).exists():
        with open_input(args.faiss + IDS_SUFFIX) as (stream, source):
            ids = read_ids(stream, source)
    documents = documents_of_codes(found, ids, source)
    with open_collections(args, writable=True) as folder:
        is_new = args.collection not in {*folder.collections(), *folder.aliases()}
        collection: AnyCollection
        if is_new:
            n_bits = found.n_bits if args.encoder is None else None
            collection = folder.create_collection(
                args.collection, encoder=args.encoder, n_bits=n_bits
            )
        else:
            collection = folder.collection(args.collection)
        with filling(folder, collection, is_new=is_new):
            if collection.n_bits != found.n_bits:
                length = f"has codes of {found.n_bits} bits"
                raise OptionError(
                    f"{args.faiss}: {length}; the collection's have {collection.n_bits}"
                )
            with count_in_stage("importing", len(found.numbers)) as advance:
                report = collection.ingest(documents, progress=advance, refused=_print_refused)
        return _end_ingestion(args, folder, collection, report, is_new=is_new)


# ``hummingbit index list|stats|verify|compact|rank|language|fields|train|drop``: the state of
# collections.


def configure_upkeep(actions: Actions) -> None:
    """Add the actions."""
    list_ = add_command(
        actions, "list", run_list, "list the collections, and those that cannot be opened"
    )
    add_folder(list_)
    stats = add_action(actions, "stats", run_stats, "describe a collection and its codes, as JSON")
    verify = add_action(actions, "verify", run_verify, "check every document, code and checksum")
    add_option(verify, "--accept-loss", "if acknowledged writes are missing, continue without them")
    compact = add_action(actions, "compact", run_compact, "free the space of deleted documents")
    rank = add_action(
        actions, "rank", run_rank, "choose a collection's default ranking and the weight of codes"
    )
    rank.add_argument(
        "ranking",
        nargs="?",
        choices=list(RANKING_SUMMARIES),
        help="the ranking of searches that name none",
    )
    add_weight(rank)
    rank.set_defaults(option_names={"hybrid_weight": "--weight"})
    language = add_action(
        actions, "language", run_language, "set or print the language of a collection's texts"
    )
    language.add_argument(
        "language",
        nargs="?",
        metavar="LANGUAGE",
        help="the language for searches by words, such as german; none for texts without stems, or"
        " auto to find it. Without it, the language is printed",
    )
    fields = add_action(
        actions, "fields", run_fields, "set or list the indexed fields, which make filters fast"
    )
    fields.add_argument(
        "fields",
        nargs="*",
        metavar="FIELD",
        help="the fields of payloads to index, and no others; without any, list the indexed ones",
    )
    add_option(fields, "--none", "index no fields")
    train = add_command(
        actions, "train", run_train, "train an encoder on a collection of a service, as a job there"
    )
    train.add_argument("collection", metavar="COLLECTION", help="a collection or an alias")
    add_option(
        train,
        "--method",
        "what is trained (default: by labels, texts and vectors, as hummingbit train)",
        choices=DOCUMENT_METHODS,
    )
    add_option(
        train,
        "--set NAME=VALUE",
        "a setting of the method, such as n_bits=128; may be given several times",
        dest="settings",
        action="append",
        type=_parse_setting,
        default=[],
    )
    add_option(train, "--encoder NAME", "the encoder's name (default: COLLECTION's, or --into)")
    add_option(train, "--into NAME", "reindex the documents into a collection of this name")
    add_option(train, "--alias NAME", "the alias to move to that collection")
    add_option(
        train,
        "--for-search",
        "without --method, choose the one that quickstart chooses",
    )
    add_option(
        train,
        "--compare",
        "hold documents out, let both encoders search for them, and change nothing unless the new"
        " one finds more",
    )
    add_label_field(train)
    add_service(train)
    add_json(train)
    drop = add_action(actions, "drop", run_drop, "delete a collection and all of its documents")
    for action in (list_, stats, verify, compact, rank, language, fields, drop):
        add_json(action)


def _parse_setting(value: str) -> tuple[str, bool | float | str]:
    """Return the name and the value of ``NAME=VALUE``."""
    name, equals, text = value.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{value!r} is not NAME=VALUE, such as n_bits=128")
    try:
        parsed = json.loads(text)
    except ValueError:
        return name, text
    return name, parsed if isinstance(parsed, bool | int | float) else text


def run_train(args: argparse.Namespace) -> None:
    """Wait until a service has trained an encoder, and print what it is called."""
    from hummingbit.remote import wait_for  # noqa: PLC0415 - only a service needs it

    names = ("encoder", "into", "alias", "label_field", "for_search", "compare")
    options = {name: getattr(args, name) for name in names}
    with service_at(args) as client:
        job = client.train(args.collection, args.method, dict(args.settings), **options)
        result = wait_for(client, job)
    trial = result.get("trial")
    told = [] if trial is None else [f"{args.collection}: {trial['sentence']}"]
    if result.get("state") == "refused":
        told.append("the new codes do not find enough more; nothing changes")
        print_result(args, {"job": job["id"], **result}, told)
        return
    lines = [*told, f"encoder {result['encoder']}: {result['n_bits']} bits, by {result['method']}"]
    if "collection" in result:
        lines.append(reindexed_line(result))
    else:
        into = "--into NAME"
        lines.append(
            f"to use it: hummingbit reindex {args.collection} --encoder {result['encoder']} {into}"
        )
    print_result(args, {"job": job["id"], **result}, "\n".join(lines))


def run_list(args: argparse.Namespace) -> None:
    """Print a collection a line: name, documents, bits, encoder."""
    with open_collections(args, writable=False) as folder:
        collections: list[dict[str, Any]] = [
            {
                "name": name,
                "documents": len(collection),
                "n_bits": collection.n_bits,
                "encoder": collection.encoder_name,
            }
            for name, collection in folder.collections().items()
        ]
        unavailable = [
            {"name": name, "reason": str(reason)} for name, reason in folder.unavailable().items()
        ]
    lines = [
        f"{info['name']}\t{counted(info['documents'], 'document')}\t{info['n_bits']} bits"
        f"\t{info['encoder'] or '-'}"
        for info in collections
    ]
    lines += [f"{info['name']}\tcannot be opened: {info['reason']}" for info in unavailable]
    print_result(args, {"collections": collections, "unavailable": unavailable}, lines)


def run_stats(args: argparse.Namespace) -> None:
    """Print the statistics of a collection as JSON."""
    with open_collection(args, writable=False) as collection:
        begin_stage(f"measuring {counted(len(collection), 'code')}")
        print_json(collection.stats())


def run_verify(args: argparse.Namespace) -> int:
    """Print the problems of a collection; return 1 if there are any."""
    with open_collections(args, writable=args.accept_loss) as folder:
        if args.accept_loss:
            folder.accept_loss(args.collection)
        verification = folder.collection(args.collection).verify()
    documents, problems = verification.documents, verification.problems
    for problem in problems:
        print(f"{args.collection}: {problem}", file=sys.stderr)
    outcome = counted(len(problems), "problem") if problems else "no problems"
    result = {"collection": args.collection, "documents": documents, "problems": problems}
    print_result(
        args, result, f"{args.collection}: {counted(documents, 'document')} checked; {outcome}"
    )
    return 1 if problems else 0


def run_compact(args: argparse.Namespace) -> None:
    """Rewrite a collection without deleted documents, and print its size before and after."""
    with open_collection(args, writable=True) as collection:
        before = collection.bytes_on_disk()
        begin_stage(f"rewriting {args.collection}")
        collection.compact()
        after = collection.bytes_on_disk()
    result = {"collection": args.collection, "bytes_before": before, "bytes_after": after}
    print_result(args, result, f"{args.collection}: {before:,} bytes before, {after:,} after")


def run_rank(args: argparse.Namespace) -> None:
    """Set a collection's default ranking, and the weight of codes beside words."""
    check_weight(args)
    with open_workbench(args, writable=True) as bench:
        collection = bench.collection(args.collection)
        result: dict[str, Any] = {"collection": args.collection}
        if args.fit:
            fitted = fit(args, bench)
            if "warning" in fitted:
                result = {"warning": fitted.pop("warning"), **result}
            result["fit"] = fitted
        elif args.weight is not None:
            collection.set_hybrid_weight(None if args.weight == ENCODER else float(args.weight))
        if args.ranking is not None:
            collection.set_ranking(args.ranking)
        result |= {"ranking": collection.ranking, "hybrid_weight": collection.hybrid_weight}
    sentence = (
        f"{args.collection}: searches are ranked by {result['ranking']}; in hybrid rankings, codes"
        f" have the weight {result['hybrid_weight']:g}"
    )
    print_result(args, result, sentence)


def run_language(args: argparse.Namespace) -> None:
    """Set the language of a collection's texts, or print it."""
    with open_collection(args, writable=args.language is not None) as collection:
        if args.language is not None:
            collection.set_language(args.language)
        language = collection.language
    result = {"collection": args.collection, "language": language}
    said = "English, by an earlier version" if language is None else language
    print_result(args, result, f"{args.collection}: {said}")


def run_fields(args: argparse.Namespace) -> None:
    """Index fields of payloads, and print which are indexed."""
    if args.none and args.fields:
        raise OptionError("--none: cannot be combined with fields")
    changes = bool(args.fields) or args.none
    with open_collection(args, writable=changes) as collection:
        warnings = []
        if changes:
            begin_stage(f"indexing fields of {counted(len(collection), 'document')}")
            warnings = collection.set_indexed_fields(args.fields)
        indexed = [*collection.indexed_fields]
    result = {"collection": args.collection, "indexed_fields": indexed}
    line = f"{args.collection}: indexed fields: {', '.join(indexed) or 'none'}"
    print_result(args, result, line, warnings)


def run_drop(args: argparse.Namespace) -> None:
    """Delete a collection, even one that cannot be opened."""
    with open_collections(args, writable=True) as folder:
        folder.drop_collection(args.collection)
    result = {"collection": args.collection, "dropped": True}
    print_result(args, result, f"{args.collection}: dropped")


# ``hummingbit alias`` and ``reindex``: second names and other encoders of collections.


def configure_alias(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = add_command(actions, "list", list_aliases, "list the aliases and their collections")
    set_ = add_command(actions, "set", set_alias, "point an alias at a collection, in one step")
    set_.add_argument("alias", metavar="ALIAS")
    set_.add_argument("collection", metavar="COLLECTION")
    remove = add_command(actions, "remove", remove_alias, "remove an alias; the collection stays")
    remove.add_argument("alias", metavar="ALIAS")
    for action in (listing, set_, remove):
        add_folder(action)
        add_json(action)


def list_aliases(args: argparse.Namespace) -> None:
    """Print an alias a line."""
    with open_collections(args, writable=False) as folder:
        aliases = {**folder.aliases()}
    lines = [f"{alias}\t{collection}" for alias, collection in aliases.items()]
    print_result(args, {"aliases": aliases}, lines)


def set_alias(args: argparse.Namespace) -> None:
    """Set an alias, in one step."""
    _change_aliases(args, AddAlias(args.alias, args.collection))
    set_ = {"alias": args.alias, "collection": args.collection}
    print_result(args, set_, f"{args.alias}\t{args.collection}")


def remove_alias(args: argparse.Namespace) -> None:
    """Remove an alias."""
    _change_aliases(args, RemoveAlias(args.alias))
    print_result(args, {"alias": args.alias, "removed": True}, f"{args.alias}: removed")


def _change_aliases(args: argparse.Namespace, action: AliasAction) -> None:
    with open_collections(args, writable=True) as folder:
        folder.change_aliases([action])


def configure_reindex(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    add_option(parser, "--encoder NAME", "the encoder of the new collection", required=True)
    add_option(parser, "--into NAME", "the name of the new collection", required=True)
    add_option(parser, "--alias NAME", "the alias to move to it once it is complete")
    add_option(
        parser,
        "--engine",
        "the search engine of the new collection (default: that of COLLECTION)",
        choices=INDEX_TYPES,
    )
    add_folder(parser)
    add_json(parser)
    parser.set_defaults(run=run_reindex)


def run_reindex(args: argparse.Namespace) -> None:
    """Re-encode every document; if that fails, no new collection is left behind."""
    if args.alias is not None:
        check_name(args.alias, "--alias")
    with open_collections(args, writable=True) as folder:
        documents = folder.reindex(
            args.collection, args.encoder, args.into, args.alias, args.engine
        )
    result = {"collection": args.into, "documents": documents, "alias": args.alias}
    print_result(args, result, reindexed_line(result))


# ``hummingbit index ACTION``: build and maintain collections of documents.


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    configure_documents(actions)
    configure_transfer(actions)
    configure_upkeep(actions)
    configure_duplicates(actions)
