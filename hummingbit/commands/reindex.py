"""``hummingbit reindex``: re-encode a collection's texts into another one by another encoder."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import add_folder, add_url, open_collections
from hummingbit.commands.printing import add_json, print_result
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage, count_in_stage
from hummingbit.index.catalog import AddAlias, check_name
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines.choice import INDEX_TYPES
from hummingbit.index.ingestion import carry_annotations, copy_following, form_for, passages_for


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument(
        "--encoder", required=True, metavar="NAME", help="the encoder of the new collection"
    )
    parser.add_argument(
        "--into", required=True, metavar="NAME", help="the name of the new collection"
    )
    parser.add_argument(
        "--alias", metavar="NAME", help="the alias to move to it once it is complete"
    )
    parser.add_argument(
        "--search-by",
        choices=INDEX_TYPES,
        help="the search engine of the new collection (default: that of COLLECTION)",
    )
    add_folder(parser)
    add_url(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Re-encode every document; if that fails, no new collection is left behind."""
    with open_collections(args, writable=True) as folder:
        if isinstance(folder, DataFolder):
            documents = _reindex(folder, args)
        else:
            documents = folder.reindex(
                args.collection, args.encoder, args.into, args.alias, args.search_by
            )
    moved = "" if args.alias is None else f"; the alias {args.alias} points to it"
    result = {"collection": args.into, "documents": documents, "alias": args.alias}
    print_result(args, result, f"{args.into}: {counted(documents, 'document')}{moved}")
    return 0


def _reindex(folder: DataFolder, args: argparse.Namespace) -> int:
    source = folder.collection(args.collection)
    if args.alias is not None:
        check_name(args.alias, "--alias")
    engine = args.search_by or source.engine_setting
    keep_vectors = form_for(folder, args.encoder, source)
    draft = folder.draft_collection(
        args.into,
        encoder=args.encoder,
        engine=engine,
        keep_vectors=keep_vectors,
        passages=passages_for(folder, args.encoder, source),
    )
    try:
        draft.collection.set_ranking(source.ranking)
        draft.collection.set_indexed_fields(source.indexed_fields)
        draft.collection.remember_field_types(source.field_types)
        with count_in_stage("encoding", len(source)) as advance:
            copy_following(source, draft.collection, 0, advance)
        begin_stage("copying labels and judgements")
        carry_annotations(source, draft.collection)
        target = draft.publish()
    finally:
        draft.discard()  # unless it was published
    if args.alias is not None:
        try:
            folder.change_aliases([AddAlias(args.alias, args.into)])
        except BaseException:
            folder.drop_collection(args.into)
            raise
    return len(target)
