"""``hummingbit search``: search a collection from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as dataclass_fields
from typing import Any

from hummingbit.commands.hits import print_hits
from hummingbit.commands.options import (
    OptionError,
    add_filter,
    add_folder,
    add_option,
    as_json,
    open_collection,
    parse_json_option,
    read_filter,
)
from hummingbit.commands.printing import (
    add_json,
    print_facets,
    print_json,
    print_warnings,
    without_controls,
)
from hummingbit.deferred import deferred_imports
from hummingbit.index.names import AVERAGE_VECTOR, STRATEGIES
from hummingbit.index.options import (
    RECOMMENDATION_OPTIONS,
    REQUEST_OPTIONS,
    Hybrid,
    Rescore,
    request_name,
)

with deferred_imports():
    from hummingbit.corpus.document import Vector, parse_vector
    from hummingbit.index.facets import FacetResult
    from hummingbit.index.records import Query

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
    add_option(parser, "--code HEX", "a packed code instead of a text or beside one")
    add_option(parser, "--id ID", "a stored document instead of a text")
    add_option(
        parser, "--vector JSON", "a vector instead of a text or beside one, such as '[0.1, -0.2]'"
    )
    add_option(
        parser,
        "--like ID",
        "a document that hits should be like; repeat it for several",
        action="append",
        default=[],
    )
    add_option(
        parser,
        "--unlike ID",
        "a document that hits should be unlike; repeat it for several",
        action="append",
        default=[],
    )
    add_option(
        parser,
        "--strategy",
        "rank by the mean of --like and --unlike, or by the nearest of them"
        f" (default: {AVERAGE_VECTOR})",
        choices=STRATEGIES,
    )
    for path in FLAGS.values():
        _add_flag(parser, path[-1])
    add_filter(parser)
    text = parser.add_mutually_exclusive_group()
    add_option(
        text,
        "--with-text",
        "with --json, return the texts, too; without, a line of each is printed anyway",
        default=None,
    )
    add_option(text, "--no-text", "do not print texts", dest="with_text", action="store_false")
    add_option(
        parser,
        "--complete",
        "print queries that begin like TEXT, with its last word completed, and search nothing",
    )
    payload = parser.add_mutually_exclusive_group()
    add_option(payload, "--no-payload", "leave the payloads out")
    add_option(payload, "--payload-fields FIELD", "only these fields of the payloads", nargs="+")
    add_option(
        parser,
        "--facets FIELD",
        "count the values of payload fields over the documents that have a word of the query, or"
        " if codes alone rank, over the nearest",
        nargs="+",
    )
    add_json(parser)
    add_folder(parser)
    parser.set_defaults(run=run, option_names={"hybrid": "--codes-weight"})


def run(args: argparse.Namespace) -> None:
    """Print the hits for people to read, or with ``--json`` the response."""
    if args.with_text is None:
        args.with_text = not args.json
    if args.complete:
        _print_completions(args)
        return
    vector = _read_vector(args)
    query = Query(text=args.text, vector=vector, code=args.code, id=args.id)
    options, filter_ = _read_options(args), read_filter(args)
    if filter_ is not None:
        options["filter"] = as_json(filter_)
    with open_collection(args, writable=False) as collection:
        if args.with_text and not args.json and collection.passages is not None:
            options["with_passage"] = True
        if args.like or args.unlike:
            like, unlike = ([Query(id=id_) for id_ in ids] for ids in (args.like, args.unlike))
            like += [query] if any(part is not None for part in query) else []
            strategy = args.strategy or AVERAGE_VECTOR
            answer = collection.recommendation(like, unlike, options, strategy)
        else:
            answer = collection.answer(query, options)
    if args.json:
        print_json(answer)
        return
    groups = answer.get("groups", [])
    _print_notes(answer, args.text, found_any=bool(answer["hits"] or groups))
    fields = [] if args.no_payload else args.payload_fields
    print_hits(answer["hits"], fields=fields)
    for group in groups:
        value = group["id"] if isinstance(group["id"], str) else json.dumps(group["id"])
        print(without_controls(f"{value}:"))
        print_hits(group["hits"], fields=fields)
    facets = [FacetResult(**facet) for facet in answer.get("facets", [])]
    print_facets(facets, answer.get("facets_over", ""))


def _print_completions(args: argparse.Namespace) -> None:
    """Print the completions of the text, one a line.

    Raises:
        OptionError: if there is no text.
    """
    if args.text is None:
        raise OptionError("TEXT: is missing; --complete completes its last word")
    limit = 10 if args.limit is None else args.limit
    with open_collection(args, writable=False) as collection:
        completions = collection.complete(args.text, limit)
    if args.json:
        print_json({"completions": completions})
    else:
        for completion in completions:
            print(without_controls(completion))


def _print_notes(answer: Mapping[str, Any], text: str | None, *, found_any: bool) -> None:
    """Print why there are no hits, and which words of the query were read as others, or unknown."""
    warnings, corrected = answer.get("warnings", []), answer.get("corrected", [])
    print_warnings(warnings)
    for unknown, known in corrected:
        print(f"corrected {unknown!r} to {known!r}", file=sys.stderr)
    if answer.get("recognized_terms") == 0:
        outcome = "" if found_any or warnings else ", so the search finds nothing"
        has_word = text is None or any(map(str.isalnum, text))
        what = "the encoder knows no word of the query" if has_word else "the query has no word"
        print(f"{what}{outcome}", file=sys.stderr)
    elif not found_any and not warnings:
        print("the search finds nothing", file=sys.stderr)
    for word, others in answer.get("expanded", {}).items():
        print(f"{word!r} also finds {', '.join(others)}", file=sys.stderr)


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
    return parse_vector(parse_json_option("--vector", args.vector), "--vector")


def _add_flag(parser: argparse.ArgumentParser, declared: Field[Any]) -> None:
    """Add the flag of an option of a search."""
    option = declared.metadata
    flag = "--" + option["flag"].replace("_", "-")
    help_text = option["help"][0].lower() + option["help"][1:].removesuffix(".")
    default = option["default"]
    if default is True:
        parser.add_argument(
            f"--no-{flag[2:]}", dest=option["flag"], action="store_false", help=option["off"]
        )
        return
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
        "highlight": (args.with_text and not args.json) or None,
        "with_cursor": args.json or None,
        "with_confidence": None if args.like or args.unlike else True,
    }
    for flag, (option, *parts) in FLAGS.items():
        value = getattr(args, flag)
        if value is None or value is option.metadata["default"]:
            continue
        if parts:
            fields.setdefault(request_name(option), {})[parts[0].name] = value
        else:
            fields[request_name(option)] = value
    if args.like or args.unlike:
        fields.pop("with_cursor")
        fields.pop("highlight")
        used = {name for name, value in fields.items() if value is not None}
        if others := used - {*RECOMMENDATION_OPTIONS}:
            name = min(others).replace("_", "-")
            raise OptionError(f"--{name}: cannot be combined with --like and --unlike")
    elif args.strategy is not None:
        raise OptionError("--strategy: needs --like, the documents that hits should be like")
    if "rescore" in fields and args.rescore is None:
        raise OptionError("--oversample: needs --rescore, which orders the candidates")
    return fields
