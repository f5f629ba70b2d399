"""``hummingbit serve``, ``ready``, ``config``, ``keys``, ``job``, ``completion``: run a service."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from hummingbit.commands.options import (
    OptionError,
    add_command,
    add_filter,
    add_option,
    add_service,
    read_filter,
    read_time,
    service_at,
)
from hummingbit.commands.printing import add_json, print_json, print_result
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import rare_collections
from hummingbit.service.declared_settings import DECLARED, SECRETS, Declared, flag_of
from hummingbit.service.schemas.responses import JobInfo, JobState

with deferred_imports():
    from hummingbit.service.http.keys import StoredKey, create_key, read_keys, revoke_key
    from hummingbit.service.settings import (
        Configuration,
        Settings,
        load_settings,
        settings_to_json,
        settings_to_toml,
    )


def add_settings(parser: argparse.ArgumentParser, names: Sequence[str] | None = None) -> None:
    """Add ``--config`` and a flag for every setting, or for those of `names`.

    Other settings come from the environment, the file and the defaults. Values are checked together
    with those.
    """
    add_option(
        parser, "--config FILE", "a TOML file of settings (default: $HUMMINGBIT_CONFIG)", type=Path
    )
    for name in names or DECLARED:
        if name in SECRETS:
            continue
        setting = DECLARED[name]
        text = setting.description
        if "default:" not in text and setting.default is not None:
            text += f" (default: {setting.default})"
        value: dict[str, Any] = {"metavar": _metavar(name, setting)}
        if isinstance(setting.default, bool):
            value = {"action": argparse.BooleanOptionalAction}
        help_text = text.replace("%", "%%")
        parser.add_argument(flag_of(name), default=argparse.SUPPRESS, help=help_text, **value)


def _metavar(name: str, setting: Declared) -> str:
    """Return what the help shows as the value of a setting: N, the choices, or a word."""
    if isinstance(setting.default, int | float):
        return "N"
    choices = setting.choices
    return "{" + ",".join(choices) + "}" if choices else name.rpartition("_")[2].upper()


def read_settings(args: argparse.Namespace) -> Configuration:
    """Return the settings from flags, the environment, the file and the defaults.

    Raises:
        SettingsError: if a name is unknown, a value is invalid, or the file cannot be read.
    """
    flags = {name: value for name, value in vars(args).items() if name in DECLARED}
    return load_settings(flags, args.config)


# ``hummingbit serve``: a data folder over REST.


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting."""
    add_settings(parser)
    parser.set_defaults(run=run_serve)


def run_serve(args: argparse.Namespace) -> None:
    """Serve until interrupted."""
    settings = read_settings(args).settings
    if settings.backend == "local" and not settings.create:
        _check_data_folder(settings.data_dir)
    # Imported here, so that --help is quick.
    if settings.workers:
        with rare_collections():
            from hummingbit.service.workers.supervisor import serve_by_workers  # noqa: PLC0415

        serve_by_workers(settings)
    else:
        with rare_collections():
            from hummingbit.service.server import serve  # noqa: PLC0415

        serve(settings)


def _check_data_folder(folder: Path) -> None:
    """Raise OptionError unless `folder` is a data folder or empty.

    So a misspelt name creates no data folder, and nothing is put beside other files.
    """
    if any((folder / part).is_dir() for part in ("collections", "encoders")):
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return
    reason = "holds no encoders/ and no collections/" if folder.exists() else "does not exist"
    hint = "name another folder, or create an empty one with --create"
    raise OptionError(f"--data-dir {folder}: {reason}; {hint}")


READY_SECONDS = 5.0


def configure_ready(parser: argparse.ArgumentParser) -> None:
    """Add the settings that say where the service is."""
    add_settings(parser, ("port",))
    add_option(parser, "--url URL", "a service elsewhere")
    add_json(parser)
    parser.set_defaults(run=run_ready)


def run_ready(args: argparse.Namespace) -> None:
    """Print what is served; a service that is not ready is an error.

    The key is ``HUMMINGBIT_KEY``, or else one of the keys in the settings.
    """
    from hummingbit.clients.client import Client  # noqa: PLC0415 - a service needs no client
    from hummingbit.clients.transport import KEY_VARIABLE  # noqa: PLC0415

    settings = read_settings(args).settings
    url = args.url or f"http://127.0.0.1:{settings.port}"
    with Client(
        url, os.environ.get(KEY_VARIABLE) or _key_of(settings), timeout=READY_SECONDS, retries=0
    ) as client:
        readiness = client.ready()
    collections = counted(len(readiness["collections"]), "collection")
    line = f"ready: {collections}, {counted(len(readiness['encoders']), 'encoder')}"
    if readiness["kernel"] is None:
        line += "; without the compiled kernel, so FAISS scans all codes"
    print_result(args, readiness, line)


def _key_of(settings: Settings) -> str | None:
    keys = (settings.read_key, settings.write_key, settings.admin_key)
    return next((key.get_secret_value() for key in keys if key is not None), None)


def configure_config(parser: argparse.ArgumentParser) -> None:
    """Add ``show`` and ``check``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = add_command(
        actions, "show", show_settings, "print the settings in effect and the source of each"
    )
    check = add_command(
        actions, "check", check_settings, "check that the service can start with these settings"
    )
    for action in (show, check):
        add_settings(action)
        add_json(action)


def show_settings(args: argparse.Namespace) -> None:
    """Print the settings as a configuration file, without secrets."""
    from hummingbit.index.engines import kernel  # noqa: PLC0415 - keeps --help quick

    configuration = read_settings(args)
    lines = settings_to_toml(configuration)
    lines.append(f"# {kernel.missing() or f'the compiled kernel searches by {kernel.path()}'}")
    print_result(args, settings_to_json(configuration), lines)


def check_settings(args: argparse.Namespace) -> None:
    """Check the settings, the keys and the address."""
    configuration = read_settings(args)
    from hummingbit.service.server import check_address  # noqa: PLC0415 - keeps --help quick

    check_address(configuration.settings)
    n_set = sum(origin != "default" for origin in configuration.origins.values())
    n_default = len(configuration.origins) - n_set
    line = f"the settings are valid: {n_set} set, {n_default} by default"
    print_result(args, {"in_order": True, "given": n_set, "default": n_default}, line)


def configure_keys(parser: argparse.ArgumentParser) -> None:
    """Add ``create``, ``list`` and ``revoke``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = add_command(
        actions, "create", create_api_key, "create a key and print it; it cannot be shown again"
    )
    add_option(
        create,
        "--role",
        "read: search, get and evaluate; write: also change documents; admin: everything",
        required=True,
        choices=("read", "write", "admin"),
    )
    add_option(
        create,
        "--expires WHEN",
        "when it stops working: after days or hours (30d, 12h), or at a time (2027-01-31)",
    )
    add_option(
        create,
        "--collection NAME",
        "a collection or alias that the key is only for; repeat it for several",
        action="append",
        default=[],
    )
    add_filter(create)
    listing = add_command(actions, "list", list_keys, "list the keys and their roles")
    revoke = add_command(
        actions, "revoke", revoke_api_key, "revoke a key; it stops working at once"
    )
    for action in (create, revoke):
        add_option(action, "--name NAME", "the name of the key", required=True)
    for action in (create, listing, revoke):
        add_settings(action, ("data_dir", "keys_file"))
        add_json(action)


def create_api_key(args: argparse.Namespace) -> None:
    """Print the new key on standard output and nothing else there."""
    path = read_settings(args).settings.keys_path
    expires = None if args.expires is None else read_time("--expires", args.expires)
    limits = {"collections": args.collection, "filter": read_filter(args)}
    key = create_key(path, args.name, args.role, expires=expires, **limits)
    print_result(args, {"name": args.name, "role": args.role, "key": key}, key)
    print(f"its hash is in {path}; the key cannot be shown again", file=sys.stderr)


def list_keys(args: argparse.Namespace) -> None:
    """Print a key a line: its name, its role and when it was created."""
    keys = read_keys(read_settings(args).settings.keys_path)
    records = [key.model_dump(mode="json", exclude={"sha256"}, exclude_none=True) for key in keys]
    lines = [f"{key.name:<24} {key.role:<6} {key.created}{_limits_of(key)}" for key in keys]
    print_result(args, {"keys": records}, lines)


def revoke_api_key(args: argparse.Namespace) -> None:
    """Remove the key from the file."""
    path = read_settings(args).settings.keys_path
    revoke_key(path, args.name)
    print_result(args, {"name": args.name, "revoked": True}, f"revoked {args.name}")


def _limits_of(key: StoredKey) -> str:
    expires = "" if key.expires is None else f"  until {key.expires.isoformat()}"
    collections = "" if key.collections is None else f"  for {', '.join(key.collections)}"
    of = "" if key.filter is None else f"  with {json.dumps(key.filter, ensure_ascii=False)}"
    return f"{expires}{collections}{of}"


def configure_job(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = add_command(actions, "list", list_jobs, "list the latest jobs, newest first")
    add_option(listing, "--state", "only those in this state", choices=get_args(JobState))
    add_option(listing, "--limit N", "the largest number of jobs to list")
    show = add_command(actions, "show", show_job, "print a job as JSON")
    cancel = add_command(actions, "cancel", cancel_job, "cancel a queued or running job")
    for action in (show, cancel):
        action.add_argument("job", metavar="JOB", help="its id")
    for action in (listing, show, cancel):
        add_service(action)
        add_json(action)


def list_jobs(args: argparse.Namespace) -> None:
    """Print a job a line."""
    with service_at(args) as client:
        jobs = client.jobs(limit=args.limit, state=args.state)
    print_result(args, {"jobs": jobs}, map(_job_line, jobs))


def show_job(args: argparse.Namespace) -> None:
    """Print a job as the service describes it."""
    with service_at(args) as client:
        print_json(client.job(args.job))


def cancel_job(args: argparse.Namespace) -> None:
    """Cancel a job; a running one stops after its current step."""
    with service_at(args) as client:
        job = client.cancel_job(args.job)
    print_result(args, job, _job_line(job))


def _job_line(job: JobInfo) -> str:
    progress = job["progress"]
    done = f"{progress['done']:,}"
    if progress["total"] is not None:
        done += f" of {progress['total']:,}"
    parts = [job["id"], job["kind"], job["collection"], job["state"], done, job["created"]]
    if job["error"] is not None:
        parts.append(job["error"]["detail"])
    return "\t".join(parts)


# ``hummingbit completion SHELL``: a script that completes commands and options at the tab key.


SHELLS = ("bash", "fish", "zsh")
PATH_METAVARS = ("FILE", "FOLDER", "DIR", "SOURCE")
"""The metavars of options that take a file or a folder."""


def configure_completion(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run_completion)


def run_completion(args: argparse.Namespace) -> None:
    """Print the script, generated from the options of every command."""
    import shtab  # noqa: PLC0415 - only this needs it

    from hummingbit.cli import whole_parser  # noqa: PLC0415 - it imports the commands

    parser = whole_parser()
    _complete_paths(parser)
    print(shtab.complete(parser, args.shell))


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Make the shell complete paths for arguments that are paths."""
    import shtab  # noqa: PLC0415 - as above

    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for sub_parser in action.choices.values():
                _complete_paths(sub_parser)
        elif action.type is Path or action.metavar in PATH_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
