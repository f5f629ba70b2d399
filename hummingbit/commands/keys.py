"""``hummingbit keys create|list|revoke``: the API keys of a service."""

from __future__ import annotations

import argparse
import json
import sys

from hummingbit.commands.options import add_filter, read_filter, read_time
from hummingbit.commands.printing import add_json, print_result
from hummingbit.commands.serve import add_settings, read_settings
from hummingbit.service.http.keys import StoredKey, create_key, read_keys, revoke_key


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``create``, ``list`` and ``revoke``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser(
        "create", help="create a key and print it; it cannot be shown again"
    )
    create.add_argument(
        "--role",
        required=True,
        choices=("read", "write", "admin"),
        help="read: search, get and evaluate; write: also change documents; admin: everything",
    )
    create.add_argument(
        "--expires",
        metavar="WHEN",
        help="when it stops working: after days or hours (30d, 12h), or at a time (2027-01-31)",
    )
    create.add_argument(
        "--collection",
        action="append",
        default=[],
        metavar="NAME",
        help="a collection or alias that the key is only for; repeat it for several",
    )
    add_filter(create)
    create.set_defaults(run=run_create)
    listing = actions.add_parser("list", help="list the keys and their roles")
    listing.set_defaults(run=run_list)
    revoke = actions.add_parser("revoke", help="revoke a key; it stops working at once")
    revoke.set_defaults(run=run_revoke)
    for action in (create, revoke):
        action.add_argument("--name", required=True, help="the name of the key")
    for action in (create, listing, revoke):
        add_settings(action, ("data_dir", "keys_file"))
        add_json(action)


def run_create(args: argparse.Namespace) -> int:
    """Print the new key on standard output and nothing else there."""
    path = read_settings(args).settings.keys_path
    expires = None if args.expires is None else read_time("--expires", args.expires)
    limits = {"collections": args.collection, "filter": read_filter(args)}
    key = create_key(path, args.name, args.role, expires=expires, **limits)
    print_result(args, {"name": args.name, "role": args.role, "key": key}, key)
    print(f"its hash is in {path}; the key cannot be shown again", file=sys.stderr)
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print a key a line: its name, its role and when it was created."""
    keys = read_keys(read_settings(args).settings.keys_path)
    records = [key.model_dump(mode="json", exclude={"sha256"}, exclude_none=True) for key in keys]
    lines = [f"{key.name:<24} {key.role:<6} {key.created}{_limits_of(key)}" for key in keys]
    print_result(args, {"keys": records}, lines)
    return 0


def run_revoke(args: argparse.Namespace) -> int:
    """Remove the key from the file."""
    path = read_settings(args).settings.keys_path
    revoke_key(path, args.name)
    print_result(args, {"name": args.name, "revoked": True}, f"revoked {args.name}")
    return 0


def _limits_of(key: StoredKey) -> str:
    expires = "" if key.expires is None else f"  until {key.expires.isoformat()}"
    collections = "" if key.collections is None else f"  for {', '.join(key.collections)}"
    of = "" if key.filter is None else f"  with {json.dumps(key.filter, ensure_ascii=False)}"
    return f"{expires}{collections}{of}"
