"""An experiment of several parts, each a module of its own, as one command.

The module of a part has ``configure(group)`` for options of its own and ``run(args)``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path


def configure_parts(
    parser: argparse.ArgumentParser, parts: Mapping[str, str], work_dir: str
) -> None:
    """Add the options that all parts share, and those of each of `parts`, by name and module."""
    parser.add_argument("--part", required=True, choices=parts)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each setting")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a flat list of records")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figure (.svg, .png)")
    parser.add_argument("--data-root", type=Path, metavar="DIR")
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path(work_dir),
        metavar="DIR",
        help="where results are kept; a run that was made there already is not made again",
    )
    for name, module in parts.items():
        import_module(module).configure(parser.add_argument_group(f"--part {name}"))
    parser.set_defaults(run=lambda args: _run(parts, args))


def _run(parts: Mapping[str, str], args: argparse.Namespace) -> int:
    """Run the chosen part."""
    status: int = import_module(parts[args.part]).run(args)
    return status
