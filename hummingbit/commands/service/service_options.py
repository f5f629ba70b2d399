"""Flags of the service's settings, made from the settings themselves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from service.configuration import Configuration, flag_of, load_settings
from service.settings import Settings

# Whoever lists the processes of a machine reads their flags.
SECRETS = ("admin_key", "write_key", "read_key", "milvus_token")


def add_settings(parser: argparse.ArgumentParser, names: Sequence[str] | None = None) -> None:
    """Add ``--config`` and a flag for every setting, or for those of `names`.

    What is not given is left to the environment, the file and the defaults; values are checked
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
            shown = name.rpartition("_")[2].upper()
            parser.add_argument(flag_of(name), default=argparse.SUPPRESS, metavar=shown, help=text)


def read_settings(args: argparse.Namespace) -> Configuration:
    """Return the settings that flags, environment, file and defaults make together.

    Raises:
        SettingsError: if a name is unknown, a value cannot be, or the file cannot be read.
    """
    given = {name: value for name, value in vars(args).items() if name in Settings.model_fields}
    return load_settings(given, args.config)
