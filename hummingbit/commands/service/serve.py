"""``hummingbit serve``: a data folder over REST."""

from __future__ import annotations

import argparse
from pathlib import Path

import hummingbit.threads  # noqa: F401 - before libraries that read the environment
from hummingbit.commands.options import OptionError
from hummingbit.commands.service.service_options import add_settings, read_settings


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
        from service.workers.supervisor import serve_by_workers  # noqa: PLC0415

        serve_by_workers(settings)
    else:
        from service.server import serve  # noqa: PLC0415

        serve(settings)
    return 0


def _check_data_folder(folder: Path) -> None:
    """Raise OptionError unless `folder` is a data folder, so that a misspelt name creates none."""
    if any((folder / part).is_dir() for part in ("collections", "encoders")):
        return
    found = "holds no encoders/ and no collections/" if folder.exists() else "does not exist"
    hint = "name another folder, or create an empty one with --create"
    raise OptionError(f"--data-dir {folder}: {found}; {hint}")
