"""``hummingbit index build|add|get|count|delete``: the documents of a collection."""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from corpus.readers import count_documents
from encoder.codes import code_to_hex
from encoder.features import TextFeatures
from foundation.errors import InputError, counted
from foundation.stages import begin_stage, count_in_stage
from hummingbit.commands.collections import index_remotely
from hummingbit.commands.collections.index_report import print_ingested
from hummingbit.commands.data_folder_options import (
    Actions,
    add_action,
    add_filter,
    add_url,
    filling,
    open_folder,
    read_filter,
)
from hummingbit.commands.json_output import add_json
from hummingbit.commands.options import SOURCE_HELP, BitsOption, OptionError, add_reading, read
from index.backend import MAX_K, CollectionBackend
from index.bulk.encoding import available_cores
from index.bulk.ingest import CollectionFieldTypes, IngestReport, ingest
from index.engines.choice import ENGINES as SEARCH_ENGINES
from index.errors import CollectionExists, UnknownDocument
from index.kept_vectors import FLOAT32, FORMS
from index.records import Query, StoredDocument
from index.schema import AUTO
from index.search.empty_results import reasons_for_none


def configure(actions: Actions) -> None:
    """Add the actions."""
    build = add_action(actions, "build", run_build, "build a collection from documents")
    kind = build.add_mutually_exclusive_group(required=True)
    kind.add_argument("--encoder", metavar="NAME", help="an encoder of the data folder")
    kind.add_argument(
        "--bits",
        type=int,
        action=BitsOption,
        metavar="N",
        help="the code length, if the documents bring their own codes",
    )
    build.add_argument(
        "--search-by",
        choices=SEARCH_ENGINES,
        default=AUTO,
        help="the search engine; every engine returns the same results (default: %(default)s)",
    )
    build.add_argument(
        "--index-fields",
        nargs="+",
        action="extend",
        metavar="FIELD",
        help="payload fields to index, so that filters on them need not read the payloads",
    )
    build.add_argument(
        "--keep-vectors",
        choices=FORMS,
        default=FLOAT32,
        help="how vectors are kept on disk: whole, rounded, or not at all (default: %(default)s)",
    )
    add = add_action(
        actions, "add", run_add, "add documents; those with a known id replace the stored ones"
    )
    for action in (build, add):
        action.add_argument("sources", nargs="+", metavar="SOURCE", help=SOURCE_HELP)
        add_reading(action)
        action.add_argument(
            "--jobs",
            type=int,
            default=available_cores(),
            metavar="N",
            help="encoding processes (default: one per core, here %(default)s)",
        )
        action.add_argument(
            "--allow-unknown",
            action="store_true",
            help="accept a corpus even if the encoder knows no word of most of its documents",
        )
    get = add_action(actions, "get", run_get, "print documents as JSON lines")
    get.add_argument("ids", nargs="+", metavar="ID")
    count = add_action(actions, "count", run_count, "count documents")
    add_filter(count)
    delete = add_action(actions, "delete", run_delete, "delete documents by id or by --filter")
    delete.add_argument("ids", nargs="*", metavar="ID")
    add_filter(delete)
    for action in (build, add, get, count, delete):
        add_url(action)
        add_json(action, "the documents as JSON lines" if action is get else "the result as JSON")


def run_build(args: argparse.Namespace) -> int:
    """Create a collection and fill it; if that fails, there is no collection."""
    if args.url is not None:
        return index_remotely.build(args)
    with open_folder(args, writable=True) as folder:
        if args.collection in folder.collections():
            message = f"collection {args.collection!r} exists; {index_remotely.EXTEND_HINT}"
            raise CollectionExists(message)
        collection = folder.create_collection(
            args.collection,
            encoder=args.encoder,
            n_bits=args.bits,
            engine=args.search_by,
            indexed_fields=args.index_fields,
            keep_vectors=args.keep_vectors,
        )
        with filling(folder, collection, is_new=True):
            report = _ingest(args, collection)
            index_remotely.check_filled(args, len(collection))
        try:
            _check_recognized(args, collection)
        except OptionError:
            folder.drop_collection(args.collection)
            raise
        print_ingested(args, collection.name, len(collection), report)
    return 0


def run_add(args: argparse.Namespace) -> int:
    """Add documents in batches; unchanged ones are skipped."""
    if args.url is not None:
        return index_remotely.add(args)
    with open_folder(args, writable=True) as folder:
        collection = folder.collection(args.collection)
        report = _ingest(args, collection)
        _check_recognized(args, collection)
        print_ingested(args, collection.name, len(collection), report)
    return 0


def run_get(args: argparse.Namespace) -> int:
    """Print stored documents as JSON lines."""
    if args.url is not None:
        return index_remotely.get(args)
    with open_folder(args, writable=False) as folder:
        collection = folder.collection(args.collection)
        for id_ in args.ids:
            document = collection.get(id_)
            if document is None:
                raise UnknownDocument(
                    f"collection {args.collection!r} has no document {id_[:80]!r}"
                )
            print(json.dumps(_to_json(document), ensure_ascii=False))
    return 0


def run_count(args: argparse.Namespace) -> int:
    """Print the number of documents, or of those that match the filter."""
    filter_ = read_filter(args)
    if args.url is not None:
        return index_remotely.count(args, filter_)
    with open_folder(args, writable=False) as folder:
        begin_stage("filtering documents")
        collection = folder.collection(args.collection)
        documents = collection.count(filter_)
        warnings = [] if documents else reasons_for_none(collection, filter_)
        index_remotely.print_count(args, documents, warnings)
    return 0


def run_delete(args: argparse.Namespace) -> int:
    """Delete documents; unknown ids are ignored."""
    filter_ = read_filter(args)
    if (filter_ is None) == (not args.ids):
        raise OptionError("ID: give either ids or --filter")
    if args.url is not None:
        return index_remotely.delete(args, filter_)
    with open_folder(args, writable=True) as folder:
        collection = folder.collection(args.collection)
        begin_stage("deleting documents")
        if filter_ is None:
            deleted = collection.delete(args.ids).deleted
        else:
            deleted = collection.delete_where(filter_).deleted
        warnings = [] if deleted else reasons_for_none(collection, filter_)
        index_remotely.print_deleted(args, deleted, len(collection), warnings)
    return 0


def _ingest(args: argparse.Namespace, collection: CollectionBackend) -> IngestReport:
    if args.jobs < 1:
        raise OptionError(f"--jobs is {args.jobs}; it must be at least 1")
    types = CollectionFieldTypes(collection)
    # Repeated ids are allowed: checking them would take memory for every document.
    documents = itertools.chain.from_iterable(
        read(args, source, unique_ids=False, field_types=types) for source in args.sources
    )
    counts = [count_documents(source) for source in args.sources]
    total = None if None in counts else sum(count or 0 for count in counts)
    before = collection.generation
    with count_in_stage("indexing", total) as advance, _ended_in_order():
        try:
            return ingest(collection, documents, jobs=args.jobs, progress=advance)
        except BaseException as error:
            if collection.generation != before:
                stored = counted(len(collection), "document")
                print(
                    f"{collection.name}: {stored} stored; to continue, run"
                    " the same command as index add",
                    file=sys.stderr,
                )
            encodes = collection.encoder is not None
            if not encodes and isinstance(error, InputError) and error.field in ("text", "vector"):
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


def _check_recognized(args: argparse.Namespace, collection: CollectionBackend) -> None:
    """Warn about documents with no word that the encoder knows; they all have the same code.

    Raises:
        OptionError: if most documents are like that, unless ``--allow-unknown`` is given.
    """
    encoder = collection.encoder
    if encoder is None or not isinstance(encoder.features, TextFeatures) or not len(collection):
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
    found = f"{unknown:,} of {len(collection):,} documents hold no word that the encoder knows"
    if 2 * unknown > len(collection) and not args.allow_unknown:
        hint = "train an encoder on these documents, or pass --allow-unknown to keep them"
        raise OptionError(f"{collection.name}: {found}; {hint}")
    print(f"{collection.name}: {found}; only searches by words find them", file=sys.stderr)


def _to_json(document: StoredDocument) -> dict[str, object]:
    vector = None if document.vector is None else document.vector.tolist()
    parts = {"text": document.text, "vector": vector}
    content = {name: value for name, value in parts.items() if value is not None}
    return {"id": document.id, **content, "payload": document.payload, "code": document.code}
