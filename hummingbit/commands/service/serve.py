"""``hummingbit serve``: a data folder over REST."""

from __future__ import annotations

import argparse
from pathlib import Path

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
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
        _check_there(settings.data_dir)
    # Here, so that --help is quick.
    if settings.workers:
        from service.workers.supervisor import serve_by_workers  # noqa: PLC0415

        serve_by_workers(settings)
    else:
        from service.server import serve  # noqa: PLC0415

        serve(settings)
    return 0


def _check_there(folder: Path) -> None:
    """Raise OptionError if `folder` is no data folder, which a misspelt name would make one."""
    if any((folder / part).is_dir() for part in ("collections", "encoders")):
        return
    found = "holds no encoders/ and no collections/" if folder.exists() else "is not there"
    cure = "--data-dir names another folder, and --create begins an empty one"
    raise OptionError(f"--data-dir {folder}: {found}; {cure}")
