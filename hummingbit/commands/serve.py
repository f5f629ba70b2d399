"""``hummingbit serve``: a data folder over REST."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from hummingbit.commands.options import OptionError
from hummingbit.service.settings import Configuration, Settings, flag_of, load_settings

# The flags of the service's settings, generated from the settings.


# These have no flags, because anybody who lists the machine's processes can read flags.
SECRETS = ("admin_key", "write_key", "read_key", "milvus_token")


def add_settings(parser: argparse.ArgumentParser, names: Sequence[str] | None = None) -> None:
    """Add ``--config`` and a flag for every setting, or for those of `names`.

    Other settings come from the environment, the file and the defaults. Values are checked together
    with those.
    """
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file of settings (default: $HUMMINGBIT_CONFIG)",
    )
    for name in names or Settings.model_fields:
        if name in SECRETS:
            continue
        field = Settings.model_fields[name]
        text = (field.description or "").replace("%", "%%")
        if "default:" not in text and field.default is not None:
            text += f" (default: {str(field.default).replace('%', '%%')})"
        if field.annotation is bool:
            parser.add_argument(
                flag_of(name),
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=text,
            )
        else:
            parser.add_argument(
                flag_of(name),
                default=argparse.SUPPRESS,
                metavar=_metavar(name, field.annotation),
                help=text,
            )


def _metavar(name: str, annotation: Any) -> str:
    """Return what the help shows as the value of a setting: N, the choices, or a word."""
    if annotation in (int, float):
        return "N"
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    return "{" + ",".join(choices) + "}" if choices else name.rpartition("_")[2].upper()


def read_settings(args: argparse.Namespace) -> Configuration:
    """Return the settings from flags, the environment, the file and the defaults.

    Raises:
        SettingsError: if a name is unknown, a value is invalid, or the file cannot be read.
    """
    flags = {name: value for name, value in vars(args).items() if name in Settings.model_fields}
    return load_settings(flags, args.config)


# ``hummingbit serve``: a data folder over REST.


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting."""
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    settings = read_settings(args).settings
    if settings.engine == "local" and not settings.create:
        _check_data_folder(settings.data_dir)
    # Imported here, so that --help is quick.
    if settings.workers:
        from hummingbit.service.workers.supervisor import serve_by_workers  # noqa: PLC0415

        serve_by_workers(settings)
    else:
        from hummingbit.service.server import serve  # noqa: PLC0415

        serve(settings)
    return 0


def _check_data_folder(folder: Path) -> None:
    """Raise OptionError unless `folder` is a data folder or empty.

    So a misspelt name creates no data folder, and nothing is put beside other files.
    """
    if any((folder / part).is_dir() for part in ("collections", "encoders")):
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return
    found = "holds no encoders/ and no collections/" if folder.exists() else "does not exist"
    hint = "name another folder, or create an empty one with --create"
    raise OptionError(f"--data-dir {folder}: {found}; {hint}")
