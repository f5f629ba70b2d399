"""``--json`` means the same for every command."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from hummingbit.cli import COMMANDS, LateParser, configure_command
from hummingbit.commands.printing import add_json_or_former_file

WITHOUT = {
    "quickstart": "it asks and answers, and serves",
    "demo": "it tells what it does, and serves",
    "train": "it prints progress, and its figures are files of the encoder",
    "distill": "it prints progress, and its figures are files of the encoder",
    "label pool": "its result is a file for a person to grade",
    "label judged": "its result is files and a report",
    "label train": "it trains until it is ended",
    "index export": "its standard output is the export",
    "label export": "its standard output is the export",
    "serve": "it serves until it is ended",
    "mcp": "its standard output is the protocol",
    "completion": "its standard output is a script",
}
"""Commands without ``--json``, and why."""


def actions_of(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, bool]]:
    """Yield each command that can be run, and whether it has a ``--json`` that needs no value."""
    if isinstance(parser, LateParser):
        parser.add_options()
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for item in below:
        for action, sub_parser in item.choices.items():
            yield from actions_of(f"{name} {action}", sub_parser)
    if not below:
        found = parser._option_string_actions.get("--json")
        yield name, found is not None and found.nargs in (0, "?")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_prints_a_result_prints_it_as_json(name: str) -> None:
    parser = argparse.ArgumentParser()
    configure_command(name, parser)
    if name in WITHOUT:
        return
    for command, has_json in actions_of(name, parser):
        assert has_json != (command in WITHOUT), command


def test_a_file_after_json_is_a_file_for_one_more_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    add_json_or_former_file(parser, names="names")
    assert parser.parse_args(["a", "b"]).json is False
    assert parser.parse_args(["a", "b", "--json"]).json is True
    assert capsys.readouterr().err == ""
    assert str(parser.parse_args(["a", "b", "--json", "out"]).json) == "out"
    assert str(parser.parse_args(["--json", "out.json", "a"]).json) == "out.json"
    assert capsys.readouterr().err.count("--json FILE is now --json > FILE; use that\n") == 2
    with pytest.raises(SystemExit):
        parser.parse_args(["--json", "a.trec", "b.trec", "c.trec"])
    assert "--json: takes no value; put it after the names" in capsys.readouterr().err
