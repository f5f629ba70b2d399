"""Options that experiments share, and experiments of several parts as one command.

A part is a module with ``configure(group)``, which adds its own options, and ``run(args)``. A
package that not every checkout has is asked for with :func:`need` before anything is computed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from hummingbit.commands.options import OptionError
from hummingbit.commands.printing import add_json_or_former_file
from hummingbit.foundation.errors import install_command

COMMANDS = {
    "pytorch_metric_learning": install_command("train", group="experiments"),
    "onnxruntime": install_command("model"),
    "sentence_transformers": install_command("sentence-transformers"),
}
"""The command that installs each package that only some parts of experiments need."""


def need(package: str, uses: Iterable[str]) -> None:
    """Check, before an experiment starts, that a `package` is installed if it has `uses`.

    Raises:
        OptionError: if it is not; the message names the uses and the command that installs it.
    """
    names = sorted(uses)
    if names and find_spec(package) is None:
        where = f"{', '.join(names)} {'needs' if len(names) == 1 else 'need'} {package}"
        raise OptionError(f"{where}; install it with: {COMMANDS[package]}")


def configure_parts(
    parser: argparse.ArgumentParser, parts: Mapping[str, str], work_dir: str
) -> None:
    """Add the options that all parts share, and those of each part, a module by its name."""
    parser.add_argument(
        "--part", required=True, choices=parts, help="the part of the experiment to run"
    )
    add_run_options(parser, work_dir)
    add_plot_option(parser)
    for name, module in parts.items():
        import_module(module).configure(parser.add_argument_group(f"--part {name}"))
    parser.set_defaults(run=lambda args: _run(parts, args))


def add_run_options(parser: argparse.ArgumentParser, work_dir: str, seeds: int = 3) -> None:
    """Add the options for the number of runs, the data, and the places of results."""
    parser.add_argument(
        "--seeds", type=int, default=seeds, metavar="N", help="runs of each setting"
    )
    add_json_or_former_file(parser)
    add_data_root(parser)
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path(work_dir),
        metavar="DIR",
        help="where results are saved; later runs reuse them",
    )


def add_data_root(parser: argparse.ArgumentParser) -> None:
    """Add ``--data-root``."""
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="the folder of the named data sets (default: $HUMMINGBIT_DATA)",
    )


def add_choices(
    parser: argparse._ActionsContainer, flag: str, names: Iterable[str], help_text: str
) -> None:
    """Add the option for some of `names`, by default all."""
    names = list(names)
    help_text = f"{help_text} (default: all)"
    parser.add_argument(flag, nargs="+", default=names, choices=names, help=help_text)


def add_bits(parser: argparse.ArgumentParser, default: Sequence[int]) -> None:
    """Add the option for one or several code lengths."""
    help_text = f"bits in a code (default: {' '.join(map(str, default))})"
    parser.add_argument(
        "--bits", type=int, nargs="+", default=list(default), metavar="N", help=help_text
    )


def add_plot_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the file of the figure."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figure (.svg, .png)")


def _run(parts: Mapping[str, str], args: argparse.Namespace) -> int:
    status: int = import_module(parts[args.part]).run(args)
    return status
