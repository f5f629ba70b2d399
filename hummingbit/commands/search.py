"""``hummingbit search``: search a collection from the command line."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any, cast

from hummingbit.commands.options import (
    OptionError,
    add_filter,
    add_folder,
    add_url,
    as_json,
    open_collections,
    open_folder,
    read_filter,
    service_at,
)
from hummingbit.commands.printing import (
    add_json,
    print_facets,
    print_json,
    print_warnings,
    without_controls,
)
from hummingbit.corpus.document import Vector, parse_vector
from hummingbit.corpus.json_rows import parse_strictly
from hummingbit.corpus.lines import LineError
from hummingbit.index.facets import FacetResult
from hummingbit.index.rankings import HAMMING
from hummingbit.index.recommendations import AVERAGE_VECTOR, STRATEGIES
from hummingbit.index.records import Query
from hummingbit.index.search import (
    RECOMMENDATION_OPTIONS,
    REQUEST_OPTIONS,
    Group,
    Hit,
    Hybrid,
    Rescore,
    SearchOptions,
    explain_no_groups,
    request_name,
    with_warnings,
)

if TYPE_CHECKING:
    from hummingbit.clients import calls

# Aligns texts with the ids of hits.
INDENT = " " * 6


PARTS = {"hybrid": dataclass_fields(Hybrid), "rescore": dataclass_fields(Rescore)}
FLAGS: Mapping[str, tuple[Field[Any], ...]] = {
    path[-1].metadata["flag"]: path
    for name, option in REQUEST_OPTIONS.items()
    for path in [(option,), *((option, part) for part in PARTS.get(name, ()))]
    if path[-1].metadata["flag"]
}
"""The option that each flag sets, and which part of it, if it has parts."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument("text", nargs="?", metavar="TEXT")
    parser.add_argument(
        "--code", metavar="HEX", help="a packed code instead of a text or beside one"
    )
    parser.add_argument("--id", metavar="ID", help="a stored document instead of a text")
    parser.add_argument(
        "--vector",
        metavar="JSON",
        help="a vector instead of a text or beside one, such as '[0.1, -0.2]'",
    )
    parser.add_argument(
        "--like",
        action="append",
        default=[],
        metavar="ID",
        help="a document that hits should be like; repeat it for several",
    )
    parser.add_argument(
        "--unlike",
        action="append",
        default=[],
        metavar="ID",
        help="a document that hits should be unlike; repeat it for several",
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        help="rank by the mean of --like and --unlike, or by the nearest of them"
        f" (default: {AVERAGE_VECTOR})",
    )
    for path in FLAGS.values():
        _add_flag(parser, path[-1])
    add_filter(parser)
    text = parser.add_mutually_exclusive_group()
    text.add_argument(
        "--with-text",
        action="store_true",
        default=None,
        help="print the text of each hit; on a terminal that is the default",
    )
    text.add_argument(
        "--no-text", dest="with_text", action="store_false", help="do not print texts"
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="print queries that begin like TEXT, with its last word completed, and search nothing",
    )
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument("--no-payload", action="store_true", help="leave the payloads out")
    payload.add_argument(
        "--payload-fields", nargs="+", metavar="FIELD", help="only these fields of the payloads"
    )
    parser.add_argument(
        "--facets",
        nargs="+",
        metavar="FIELD",
        help="count the values of payload fields over all documents that the search finds",
    )
    add_json(parser)
    add_folder(parser)
    add_url(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a hit a line: distance, confidence, id and the requested fields, then its text.

    Without a line of its own, the text stands where a hit has no payload.
    """
    asked = args.with_text or args.with_passage
    args.text_lines = asked or (args.with_text is None and sys.stdout.isatty())
    if args.with_text is None:
        args.with_text = not args.json
    if args.complete:
        return _print_completions(args)
    vector = _read_vector(args)
    if args.url is not None:
        return _search_remotely(args, vector)
    query = Query(text=args.text, vector=vector, code=args.code, id=args.id)
    options = SearchOptions.of_request({**_read_options(args), "filter": read_filter(args)})
    recommends = bool(args.like or args.unlike)
    with open_folder(args, writable=False) as folder:
        collection = folder.collection(args.collection)
        began = time.perf_counter()
        if recommends:
            like, unlike = ([Query(id=id_) for id_ in ids] for ids in (args.like, args.unlike))
            like += [query] if any(part is not None for part in query) else []
            strategy = args.strategy or AVERAGE_VECTOR
            result = collection.recommend(like, unlike, options, strategy)
        else:
            result = collection.find([query], options)
        seconds = time.perf_counter() - began
        groups = result.groups[0] if result.groups else []
        warnings: list[str] = []
        if not result.hits[0] and not groups:
            warnings += collection.explain_no_hits(options.filter)
            warnings += explain_no_groups(collection, options.group_by, groups)
        if args.json:
            # The schemas of a service take as long to import as all the rest.
            from hummingbit.service.schemas.search import search_answer  # noqa: PLC0415

            answer = search_answer(collection, result, 0, options, seconds)
            print_json(with_warnings(answer, warnings))
            return 0
    terms = result.queries.terms[0]
    corrected = () if terms is None else terms.corrected
    recognized = None if terms is None else terms.recognized_terms
    _print_notes(recognized, corrected, warnings, hits=len(result.hits[0]) + len(groups))
    _print_substitutes(result.substitutes[0] if result.substitutes else {}, corrected)
    _print_hits(args, result.hits[0], groups, result.rescored_by or result.rankings[0])
    print_facets(result.facets[0] if result.facets else [])
    return 0


def _print_completions(args: argparse.Namespace) -> int:
    """Print the completions of the text, one a line.

    Raises:
        OptionError: if there is no text.
    """
    if args.text is None:
        raise OptionError("TEXT: is missing; --complete completes its last word")
    limit = 10 if args.limit is None else args.limit
    with open_collections(args, writable=False) as folder:
        completions = folder.collection(args.collection).complete(args.text, limit)
    if args.json:
        print_json({"completions": completions})
    else:
        for completion in completions:
            print(without_controls(completion))
    return 0


def _print_notes(
    recognized_terms: int | None,
    corrected: Iterable[Sequence[str]],
    warnings: Sequence[str],
    *,
    hits: int,
) -> None:
    """Print why there are no hits, which words were corrected, and whether none is known.

    `recognized_terms` counts the words of the query that the encoder knows; None without a text.
    """
    print_warnings(warnings)
    for unknown, known in corrected:
        print(f"corrected {unknown!r} to {known!r}", file=sys.stderr)
    if recognized_terms == 0:
        outcome = "" if hits or warnings else ", so the search finds nothing"
        print(f"the encoder knows no word of the query{outcome}", file=sys.stderr)
    elif not hits and not warnings:
        print("the search finds nothing", file=sys.stderr)


def _read_vector(args: argparse.Namespace) -> Vector | None:
    """Return the vector of ``--vector``, or None without one.

    Raises:
        OptionError: if it is not JSON, or there is nothing to search for.
        DocumentError: if it is not a vector.
    """
    if args.vector is None:
        if (args.text, args.code, args.id) == (None, None, None) and not args.like + args.unlike:
            raise OptionError("TEXT: is missing; give a text, --vector, --code or --id")
        return None
    try:
        return parse_vector(parse_strictly(args.vector), "--vector")
    except LineError as error:
        raise OptionError(f"--vector: {error}") from None


def _add_flag(parser: argparse.ArgumentParser, declared: Field[Any]) -> None:
    """Add the flag of an option of a search."""
    option = declared.metadata
    flag = "--" + option["flag"].replace("_", "-")
    help_text = option["help"][0].lower() + option["help"][1:].removesuffix(".")
    default = option["default"]
    if default is False:
        parser.add_argument(flag, action="store_true", help=help_text)
        return
    if default not in {None, MISSING}:
        help_text += f" (default: {default:g})"
    if option["choices"]:
        parser.add_argument(flag, choices=option["choices"], help=help_text)
        return
    types = {"int": int, "float": float, "str": str}
    type_ = types[str(declared.type).removesuffix(" | None")]
    parser.add_argument(flag, type=type_, metavar=option["metavar"], help=help_text)


def _read_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a request that the flags set, without the filter.

    Raises:
        OptionError: if there is an ``--oversample`` without a ``--rescore``.
    """
    fields: dict[str, Any] = {
        "with_payload": args.payload_fields or not args.no_payload,
        "facets": args.facets,
        "with_text": args.with_text or None,
        "with_cursor": args.json or None,
        "with_confidence": None if args.like or args.unlike else True,
    }
    for flag, (option, *parts) in FLAGS.items():
        value = getattr(args, flag)
        if value is None or value is False:
            continue
        if parts:
            fields.setdefault(request_name(option), {})[parts[0].name] = value
        else:
            fields[request_name(option)] = value
    if args.like or args.unlike:
        fields.pop("with_cursor")
        used = {name for name, value in fields.items() if value is not None}
        if others := used - {*RECOMMENDATION_OPTIONS}:
            name = min(others).replace("_", "-")
            raise OptionError(f"--{name}: cannot be combined with --like and --unlike")
    elif args.strategy is not None:
        raise OptionError("--strategy: needs --like, the documents that hits should be like")
    if "rescore" in fields and args.rescore is None:
        raise OptionError("--oversample: needs --rescore, which orders the candidates")
    return fields


def _search_remotely(args: argparse.Namespace, vector: Vector | None) -> int:
    """Search a collection of a service, and print the same."""
    # A search of a data folder needs no client.
    from hummingbit.remote import group_of, hit_of  # noqa: PLC0415

    filter_, options = read_filter(args), _read_options(args)
    if filter_ is not None:
        options["filter"] = as_json(filter_)
    query = {
        "text": args.text,
        "vector": None if vector is None else vector.tolist(),
        "code": args.code,
        "id": args.id,
    }
    given = {name: value for name, value in query.items() if value is not None}
    with service_at(args) as client:
        if args.like or args.unlike:
            like = [*args.like, *([given] if given else [])]
            more = cast("calls.ServedRecommendationOptions", options)
            response = client.recommend(
                args.collection, like, args.unlike, strategy=args.strategy, **more
            )
        else:
            response = client.search(
                args.collection, **given, **cast("calls.SearchOptions", options)
            )
    if args.json:
        print_json(response)
        return 0
    recognized, corrected = response.get("recognized_terms"), response.get("corrected", [])
    hits = [*map(hit_of, response["hits"])]
    groups = [*map(group_of, response.get("groups", []))]
    _print_notes(recognized, corrected, response.get("warnings", []), hits=len(hits) + len(groups))
    _print_substitutes(response.get("substitutes", {}), corrected)
    _print_hits(args, hits, groups, response.get("rescored_by") or response["ranking"])
    print_facets([FacetResult(**facet) for facet in response.get("facets", [])])
    return 0


def _print_substitutes(
    substitutes: Mapping[str, Sequence[str]], corrected: Iterable[Sequence[str]]
) -> None:
    """Print what was searched for in place of words that no document has."""
    known = {word for word, _ in corrected}
    for word, others in substitutes.items():
        if word not in known:
            print(f"no document has {word!r}; searched for {', '.join(others)}", file=sys.stderr)


def _print_hits(
    args: argparse.Namespace, hits: Iterable[Hit], groups: Iterable[Group], ranking: str
) -> None:
    """Print hits, and groups of them below the value that they share."""
    for hit in hits:
        _print_hit(hit, ranking, has_text_line=args.text_lines)
    for group in groups:
        value = group.id if isinstance(group.id, str) else json.dumps(group.id)
        print(without_controls(f"{value}:"))
        for hit in group.hits:
            _print_hit(hit, ranking, has_text_line=args.text_lines)


def _print_hit(hit: Hit, ranking: str, *, has_text_line: bool) -> None:
    """Print the line of a hit and, with `has_text_line`, the beginning of its text on the next."""
    width = shutil.get_terminal_size().columns - len(INDENT)
    text = None
    if hit.text is not None:
        start, end = hit.passage or (0, len(hit.text))
        text = textwrap.shorten(hit.text[start:end], max(20, width), placeholder=" …")
    print(_line(hit, ranking, "" if has_text_line else text or ""))
    if has_text_line and text is not None:
        print(f"{INDENT}{without_controls(text)}")


def _line(hit: Hit, ranking: str, text: str) -> str:
    score = None if hit.rerank_score is None else f"{hit.rerank_score:8.3f}"
    if score is None and ranking != HAMMING:
        score = f"{hit.score:8.3f}"
    confidence = None if hit.confidence is None else f"{hit.confidence:4.0%}"
    payload = json.dumps(hit.payload, ensure_ascii=False) if hit.payload else text or None
    distance = "-" if hit.distance is None else str(hit.distance)
    parts = [f"{distance:>4}", score, confidence, hit.id, hit.code, payload]
    return without_controls("  ".join(part for part in parts if part is not None))
