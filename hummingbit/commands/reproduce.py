"""``hummingbit reproduce NAME``: an experiment of a paper; ``leaderboard``, which is one of them.

The experiments are not installed: they lie beside the package in a checkout. Another distribution
can add its own through the entry-point group :data:`GROUP`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import hummingbit
from hummingbit.cli import LateParser, as_sentence
from hummingbit.commands.options import OptionError
from hummingbit.commands.printing import print_json
from hummingbit.foundation.errors import install_command

GROUP = "hummingbit.experiments"
NEEDED = install_command("train", group="experiments")
_SUMMARY = re.compile(r'^SUMMARY = "(.+)"$', re.MULTILINE)
WITHOUT_CHECKOUT = (
    "experiments are not installed: run them from a checkout of hummingbit, with the extra train"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the installed experiments, each with its own options.

    An experiment that lacks a package is listed too; running it gives an error that names the
    package. Without a checkout there is none, and the command says so.
    """
    experiments = _experiments()
    if not experiments:
        parser.prefix_chars = "\0"
        refuse_to_run(parser, WITHOUT_CHECKOUT)
        return
    parsers = parser.add_subparsers(
        dest="experiment", required=True, metavar="NAME", parser_class=LateParser
    )
    for name, experiment in sorted(experiments.items()):
        # Most experiments import torch.
        late = parsers.add_parser(name, help=experiment.summary())
        late.configure = partial(_configure_named, name)


def _configure_named(name: str, parser: argparse.ArgumentParser) -> None:
    """Import an experiment and add its options; if that fails, running it gives an error."""
    try:
        module = load_experiment(name)
    except OptionError as error:
        parser.prefix_chars = "\0"  # no argument begins with it, so any options are accepted
        refuse_to_run(parser, f"reproduce {error}")
        return
    needs = f"the extra train{getattr(module, 'NEEDS', '')}"
    runs = f"It runs from a checkout of hummingbit and needs {needs}."
    parser.description = f"{as_sentence(module.SUMMARY)} {runs}"
    configure_experiment(module, parser)


def load_experiment(name: str) -> Any:
    """Return the module of an experiment.

    Raises:
        OptionError: if it is not installed, or a package that it needs is not.
    """
    found = _experiments().get(name)
    if found is not None:
        try:
            experiment = found.load()
            # Parts of an experiment are imported when their options are added.
            experiment.configure(argparse.ArgumentParser(add_help=False))
        except ModuleNotFoundError as error:
            raise OptionError(f"{name} needs {error.name}; install it with: {NEEDED}") from None
        return experiment
    raise OptionError(f"there is no experiment {name}; {WITHOUT_CHECKOUT}")


class _Experiment(NamedTuple):
    """How to load an experiment, and what to list of it before."""

    load: Callable[[], Any]
    summary: Callable[[], str]


def _experiments() -> dict[str, _Experiment]:
    """Return the experiments by name."""
    experiments = {
        entry.name: _Experiment(entry.load, partial(str, entry.value))
        for entry in entry_points(group=GROUP)
    }
    root = Path(hummingbit.__file__).parents[1]
    modules = sorted((root / "experiments").glob("*/experiment.py"))
    if modules and str(root) not in sys.path:
        sys.path.append(str(root))
    for path in modules:
        module = f"experiments.{path.parent.name}.experiment"
        name = path.parent.name.replace("_", "-")
        found = _Experiment(partial(import_module, module), partial(_summary_in, path))
        experiments.setdefault(name, found)
    return experiments


def _summary_in(path: Path) -> str:
    """Return the summary of an experiment, which is a line of its module, without importing it."""
    found = _SUMMARY.search(path.read_text(encoding="utf-8"))
    return found[1] if found else ""


def configure_experiment(experiment: Any, parser: argparse.ArgumentParser) -> None:
    """Add the options of an experiment, whose records ``--json`` prints."""
    experiment.configure(parser)
    parser.set_defaults(run=partial(_run, parser.get_default("run")))


def _run(experiment: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run an experiment; with ``--json``, its tables go to standard error."""
    if args.json is not True:
        return experiment(args)
    args.records = []
    with redirect_stdout(sys.stderr):
        status = experiment(args)
    print_json({"records": args.records})
    return status


def refuse_to_run(parser: argparse.ArgumentParser, message: str) -> None:
    """Let a command accept any arguments, and fail with `message` when it is run."""
    parser.add_argument("options", nargs="*")
    parser.set_defaults(run=partial(_refuse, message))


def _refuse(message: str, _args: argparse.Namespace) -> int:
    raise OptionError(message)


def configure_leaderboard(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's options; if it is not installed, running it gives an error."""
    try:
        experiment = load_experiment("leaderboard")
    except OptionError as error:
        parser.prefix_chars = "\0"
        refuse_to_run(parser, str(error))
    else:
        configure_experiment(experiment, parser)
