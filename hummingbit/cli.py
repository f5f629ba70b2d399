"""The ``hummingbit`` command. Each sub-command opens something, calls it and prints the result."""

from __future__ import annotations

import argparse
import atexit
import codecs
import gc
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from io import TextIOWrapper
from pathlib import Path
from shlex import quote
from textwrap import fill
from typing import Any, NamedTuple, NoReturn

import hummingbit
from hummingbit.deferred import defer_imports, load_deferred

# A parser of command lines that suggests the name that a misspelt one is nearest to.


OTHER_WORDS = {
    "create": "build",
    "make": "build",
    "insert": "add",
    "upsert": "add",
    "update": "add",
    "remove": "delete",
    "describe": "stats",
    "check": "verify",
    "dump": "export",
    "load": "import",
    "dedupe": "duplicates",
    "backup": "snapshot",
    "query": "search",
    "find": "search",
    "fit": "train",
    "eval": "evaluate",
    "start": "serve",
    "where": "filter",
    "top": "limit",
    "top-k": "limit",
}
"""Words of other tools, and the names of ours."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the name in `known` nearest to `word`, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    # Without the dashes, which all options share.
    names = {name.lstrip("-"): name for name in known}
    others = {other: names[name] for other, name in OTHER_WORDS.items() if name in names}
    words = {**others, **names}
    similar = get_close_matches(word.lstrip("-"), words, n=1)
    return f"; did you mean {words[similar[0]]!r}?" if similar else ""


def as_sentence(summary: str) -> str:
    """Return the summary of a command in a list as a sentence of its own."""
    return f"{summary[0].upper()}{summary[1:]}."


class _DescribedParsers(argparse._SubParsersAction):  # type: ignore[type-arg]  # noqa: SLF001
    """Sub-commands; the help of each begins with its line in the list of all."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        if options.get("help"):
            options.setdefault("description", as_sentence(options["help"]))
        parser: argparse.ArgumentParser = super().add_parser(name, **options)
        return parser


class _Version(argparse.Action):
    """Prints the version, which is looked up only then, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - takes twenty milliseconds

        print(f"hummingbit {version('hummingbit')}")
        parser.exit()


class SuggestingParser(argparse.ArgumentParser):
    """Refuses an unknown option, action or value with the nearest one that it knows.

    An option is refused before anything else is checked: one that is misspelt is also missing.
    """

    _is_second_reading = False

    def add_subparsers(self, **options: Any) -> Any:
        """Add sub-commands as argparse does, with descriptions."""
        return super().add_subparsers(**{"action": _DescribedParsers, **options})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does, but refuse whatever is unknown."""
        if self._is_second_reading:
            return super().parse_known_args(args, namespace)
        for argument in self._own_arguments(args or ()):
            self._check_option(argument)
        if self._may_lack_an_argument():
            # It calls this method for the options, and again for the other arguments.
            self._is_second_reading = True
            try:
                parsed, rest = super().parse_known_intermixed_args(args, namespace)
            finally:
                self._is_second_reading = False
        else:
            parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse(rest[0])
        # A sub-command has set its own, which come first.
        parsed.option_names = self._option_names() | getattr(parsed, "option_names", {})
        return parsed, rest

    def _option_names(self) -> dict[str, str]:
        """Return the name of the option, or of the argument, that sets each attribute."""
        names = {}
        for action in self._actions:
            shown = next(
                (name for name in action.option_strings if name.startswith("--")),
                action.option_strings[0] if action.option_strings else action.metavar,
            )
            if action.help != argparse.SUPPRESS and isinstance(shown, str):
                names[action.dest] = shown
        return names

    def _may_lack_an_argument(self) -> bool:
        """Whether an argument without a dash may be left out, and so may follow options.

        argparse decides that it was left out at the first option that follows the argument before
        it: ``search NAME --limit 3 TEXT`` would have no TEXT.
        """
        groups = self._mutually_exclusive_groups
        grouped = {action for group in groups for action in group._group_actions}  # noqa: SLF001
        own = [action for action in self._actions if not action.option_strings]
        return any(action.nargs == argparse.OPTIONAL for action in own) and grouped.isdisjoint(own)

    def _own_arguments(self, arguments: Sequence[str]) -> Iterable[str]:
        """Yield the arguments before a sub-command, which has a parser of its own, and ``--``."""
        # The first word of a parser with commands is one, or is refused as none.
        has_commands = any(
            isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - it is not public
            for action in self._actions
        )
        for argument in arguments:
            if argument == "--" or (has_commands and not argument.startswith("-")):
                return
            yield argument

    def _check_option(self, argument: str) -> None:
        name = argument.partition("=")[0]
        if not name.startswith("--") or self.prefix_chars != "-" or " " in name:
            return
        if not any(known.startswith(name) for known in self._option_string_actions):
            self._refuse(name)

    def _refuse(self, argument: str) -> NoReturn:
        if argument.startswith("-"):
            visible = [action for action in self._actions if action.help != argparse.SUPPRESS]
            options = [name for action in visible for name in action.option_strings]
            self.error(f"there is no option {argument}{did_you_mean(argument, options)}")
        self.error(f"unexpected argument: {argument}; quote a text of several words")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), choices)
        name = "/".join(action.option_strings) or action.metavar or action.dest
        known = ", ".join(choices)
        raise argparse.ArgumentError(None, f"{name}: there is no {value!r}{hint}; known: {known}")


class LateParser(SuggestingParser):
    """A parser whose options are added when they are needed, by `configure`."""

    configure: Callable[[argparse.ArgumentParser], None] | None = None

    def add_options(self) -> None:
        """Add the options, unless they were added."""
        configure, self.configure = self.configure, None
        if configure is not None:
            configure(self)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as others do, with all options."""
        self.add_options()
        return super().parse_known_args(args, namespace)


# The ``hummingbit`` command. Each sub-command opens something, calls it and prints the result.
#
# Exit status: 0 success, 1 a failed gate or check, 2 invalid input or an explained failure, 130
# interrupted.


class Command(NamedTuple):
    """A command: its group in the help and its summary.

    `module` is its module in :mod:`hummingbit.commands`, if that has not the command's name.
    """

    group: str
    summary: str
    module: str | None = None


COMMANDS = {
    "quickstart": Command(
        "encoders", "search a file of your own within seconds, and learn from it meanwhile"
    ),
    "demo": Command(
        "encoders",
        "quickstart with the docstrings of the Python packages installed here",
    ),
    "train": Command("encoders", "train an encoder on documents, with few labels or none"),
    "distill": Command(
        "encoders", "train a small encoder to imitate a large model, with few labels or none"
    ),
    "index": Command("collections", "build and maintain collections of documents"),
    "label": Command("labels", "label and judge documents, see what to label next, and retrain"),
    "reindex": Command("collections", "re-encode a collection with another encoder", "index"),
    "alias": Command(
        "collections", "give collections a second name, and switch it in one step", "index"
    ),
    "snapshot": Command("collections", "back up collections to single files, and restore them"),
    "search": Command("collections", "search a collection from the command line"),
    "serve": Command("service", "serve a data folder over REST", "service"),
    "mcp": Command("service", "serve collections to agents, by the Model Context Protocol"),
    "ready": Command("service", "check whether the service on this machine is ready", "service"),
    "job": Command("service", "list and cancel the background jobs of a service", "service"),
    "keys": Command("service", "create, list and revoke API keys", "service"),
    "config": Command("service", "show and check the settings of a service", "service"),
    "completion": Command(
        "service", "print a script that completes commands in bash, fish or zsh", "service"
    ),
    "encoder": Command("encoders", "install, list, describe and share encoders"),
    "evaluate": Command(
        "evaluation", "measure retrieval quality with labelled queries, also in CI"
    ),
    "evaluate compare": Command(
        "evaluation", "compare collections or encoders on the same queries"
    ),
    "evaluate curve": Command(
        "evaluation", "train with several shares of the labels, to see how many pay off"
    ),
    "coherence": Command(
        "evaluation", "find the documents that an encoder does not rank as its teacher does"
    ),
    "leaderboard": Command(
        "evaluation", "compare methods of text hashing on the same documents", "reproduce"
    ),
    "reproduce": Command(
        "evaluation", "rerun a paper's experiment and print its figures beside ours"
    ),
}

SERVING = frozenset({"demo", "mcp", "quickstart", "serve"})
"""Commands that answer searches until they are stopped, and so must not pause for long."""

_SERVICE = ("fastapi", "pydantic_settings", "starlette", "uvicorn", "uvloop", "httptools")
EXTRA_OF = {
    "torch": ("training", "train"),
    **dict.fromkeys(("geoopt", "pyriemann"), ("training on SPD matrices", "spd")),
    **dict.fromkeys((*_SERVICE, "prometheus_client", "fastapi_offline"), ("the service", "serve")),
}
"""Packages of extras that commands import unasked: what needs each, and its extra."""

UNAUTHORIZED = 401
"""The status of a request without a key; the enumeration of all takes as long as argparse."""
HELP_WIDTH = 80
_OF_TRAINING = ("hummingbit.training", "hummingbit.encoder.recipes")
"""The modules whose errors name settings of training."""
MAX_COLLECTIONS = 10
"""More names of collections are not listed in an error."""
TITLES = {
    "encoders": "get started, and train encoders",
    "collections": "fill and search collections",
    "labels": "label",
    "evaluation": "measure",
    "service": "serve and operate",
}
"""The headings of the help, by group."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's own) and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Python looks for garbage when it ends, which takes half a second after training. What is
        # frozen it leaves to the system.
        atexit.register(gc.freeze)
        defer_imports()
    _accept_all_characters()
    try:
        status = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nhummingbit: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 0
    except Exception as error:
        explanation = _explain(error)
        if explanation is None:
            raise
        print(f"hummingbit: {explanation}", file=sys.stderr)
        if isinstance(error, OSError):
            _drop_output()  # it may be what cannot be written
        return 2
    return status


def _hint(error: Exception) -> str:
    """Return what the data folder has in place of a name that it lacks, or nothing."""
    from hummingbit.index.errors import UnknownEncoder  # noqa: PLC0415 - as in _explain

    if isinstance(error, UnknownEncoder):
        return _hint_to_install(error.name)
    return _hint_to_collections(error)


def _hint_to_collections(error: Exception) -> str:
    """Return which collections there are, if `error` is that there is none of a name."""
    from hummingbit.index.errors import UnknownCollection  # noqa: PLC0415 - as in _explain

    if not isinstance(error, UnknownCollection) or error.known is None:
        return ""
    known = error.known
    if not known:
        return "; the data folder has none: name another with --data-dir"
    some = ", ".join(known[:MAX_COLLECTIONS])
    more = f" and {len(known) - MAX_COLLECTIONS:,} more" if len(known) > MAX_COLLECTIONS else ""
    return did_you_mean(error.name, known) or f"; the data folder has {some}{more}"


def _explain(error: Exception) -> str | None:
    """Return the sentence for an error that a user can put right, or None for a defect."""
    # Imported here, so that --help imports little.
    from hummingbit.clients.requests import ServiceError  # noqa: PLC0415
    from hummingbit.foundation.errors import HummingbitError  # noqa: PLC0415

    if isinstance(error, ServiceError):
        hint = ""
        if error.status == UNAUTHORIZED:
            hint = "; commands read the key from the environment variable HUMMINGBIT_KEY"
        elif str(error).endswith("Connection refused"):  # not by a proxy
            hint = "; start it with hummingbit serve, or name another with --url"
        return f"{error}{hint}"
    if isinstance(error, HummingbitError):
        return f"{error}{_hint(error)}"
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_OF:
        from hummingbit.foundation.errors import install_command  # noqa: PLC0415

        what, extra = EXTRA_OF[error.name]
        return f"{what} needs {error.name}; install it with: {install_command(extra)}"
    if isinstance(error, OSError) and error.strerror is not None:
        subject = "standard output" if error.filename is None else error.filename
        return f"{subject}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return None


def _hint_to_install(name: str) -> str:
    """Return how to install the encoder in the folder `name`, or nothing if it holds none."""
    from hummingbit.encoder.artifact import MANIFEST  # noqa: PLC0415 - as in main

    folder = Path(name)
    if not (folder / MANIFEST).is_file():
        return ""
    copies = f"hummingbit encoder install {quote(name)}"
    return f"; `{copies}` copies the encoder in that folder into the data folder"


def _run(arguments: list[str]) -> int:
    # Imported here, so that --help imports little.
    from hummingbit.foundation.slices import (  # noqa: PLC0415
        STAGES_VARIABLE,
        print_stages,
        rare_collections,
        write_stages,
    )

    with rare_collections():
        args = _parse(arguments)
        load_deferred()
    file = os.environ.get(STAGES_VARIABLE)
    with (
        print_stages(),
        write_stages(Path(file)) if file else nullcontext(),
        nullcontext() if args.command in SERVING else rare_collections(),
    ):
        try:
            status: int = args.run(args) or 0
        except Exception as error:
            _name_options(error, args.option_names)
            raise
    return status


def _name_options(error: Exception, names: Mapping[str, str]) -> None:
    """Let the message of an error name options, such as ``--limit``, in place of fields."""
    from hummingbit.clients.requests import ServiceError  # noqa: PLC0415 - as in _explain
    from hummingbit.foundation.errors import HummingbitError  # noqa: PLC0415

    message = str(error)
    if isinstance(error, ServiceError):
        # The address, and then a field or the path of one.
        if found := re.match(r"(https?://\S+: )([\w/]+)(?=: )", message):
            fields = reversed(found[2].split("/"))
            name = next((names[field] for field in fields if field in names), found[2])
            message = f"{found[1]}{name}{message[found.end() :]}"
    elif not isinstance(error, HummingbitError):
        return
    elif type(error).__module__.startswith(_OF_TRAINING):
        message = _by_option(message, names)
    elif error.field is not None:
        name = names.get(error.field, error.field)
        message = message.replace(f"{error.field}: ", f"{name}: ", 1)
    else:
        # Without a field, the message may name a file; a setting has an underscore.
        message = re.sub(r"^[a-z]+_\w+(?= is )", lambda word: names.get(word[0], word[0]), message)
    if message != str(error):
        error.args = (message,)


def _by_option(message: str, names: Mapping[str, str]) -> str:
    """Return a message of training with options, such as ``--bits``, in place of settings' names.

    A setting begins the message, or has an underscore, as no other word has but in quotes.
    """
    settings = r"^\w+(?=: | is )|(?<![\w'\"/.-])[a-z]+_\w+"
    return re.sub(settings, lambda found: names.get(found[0], found[0]), message)


def _accept_all_characters() -> None:
    """Let output in an encoding without a character show its number instead of failing.

    The number is written as in JSON, ``\\u00e9``, so that what ``--json`` prints can be read.
    """
    codecs.register_error("json", _json_escapes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="json")


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _drop_output() -> None:
    """Send what standard output still holds to nowhere, so that the exit does not fail on it."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands with a one-word name, with all their options."""
    names = [name for name in COMMANDS if " " not in name]
    parser = _parser(names, names, in_help=True)
    _add_all_options(parser)
    return parser


def _add_all_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of experiments, which their parsers add when they are used."""
    if isinstance(parser, LateParser):
        parser.add_options()
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to them
        if isinstance(action, _DescribedParsers):
            for command in action.choices.values():
                _add_all_options(command)


def _parse(arguments: list[str]) -> argparse.Namespace:
    arguments = arguments or ["--help"]
    if " ".join(arguments[:2]) in COMMANDS:
        arguments = [" ".join(arguments[:2]), *arguments[2:]]
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = _parser(COMMANDS, [command] if command in COMMANDS else [])
    if command is not None and command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS) or "; hummingbit --help lists them"
        parser.error(f"there is no command {command!r}{hint}")
    return parser.parse_args(arguments)


def _parser(
    names: Iterable[str], configured: Sequence[str | None], *, in_help: bool = False
) -> argparse.ArgumentParser:
    """Return the parser of the commands `names`; those in `configured` have their options.

    Unless `in_help`, argparse's list leaves the commands out: the groups below it name them.
    """
    parser = SuggestingParser(
        prog="hummingbit",
        description=hummingbit.__doc__,
        epilog=_grouped_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="one of those below"
    )
    for name in names:
        summary = COMMANDS[name].summary
        help_option: dict[str, Any] = {"help": summary} if in_help else {}
        sub_parser = commands.add_parser(name, description=as_sentence(summary), **help_option)
        if name in configured:
            configure_command(name, sub_parser)
    return parser


def configure_command(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the options of command `name`.

    ``configure`` of the command's module adds them, or where that has several commands,
    ``configure_`` with the last word of `name`.
    """
    module = COMMANDS[name].module or name.partition(" ")[0]
    function = "configure" if name == module else f"configure_{name.rpartition(' ')[2]}"
    getattr(importlib.import_module(f"hummingbit.commands.{module}"), function)(parser)


def _grouped_help() -> str:
    """Return the commands in groups."""
    lines = []
    for group, title in TITLES.items():
        lines.append(f"{title}:")
        for name, command in COMMANDS.items():
            if command.group == group:
                head = f"  {name:<18}"
                lines.append(
                    fill(
                        command.summary, HELP_WIDTH, initial_indent=head, subsequent_indent=" " * 20
                    )
                )
        lines.append("")
    return "\n".join(lines) + "\n'hummingbit COMMAND --help' shows the options of a command."
