"""A parser of command lines that suggests the name that a misspelt one is nearest to."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

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


class SuggestingParser(argparse.ArgumentParser):
    """Refuses an unknown option, action or value with the nearest one that it knows.

    An option is refused before anything else is checked: one that is misspelt is also missing.
    """

    def add_subparsers(self, **options: Any) -> Any:
        """Add sub-commands as argparse does, with descriptions."""
        return super().add_subparsers(**{"action": _DescribedParsers, **options})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does, but refuse whatever is unknown."""
        for argument in self._own_arguments(args or ()):
            self._check_option(argument)
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse(rest[0])
        return parsed, rest

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
