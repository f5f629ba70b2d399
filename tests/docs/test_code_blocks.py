"""Every code block of README and docs is held to the program, or stands here with a reason.

Commands go through the parser of ``hummingbit`` itself, so an option, a choice or an argument that
is not there fails. Python is compiled and what it imports must be there; the blocks of :data:`RUN`
are run one after the other. The commands with curl of docs/service.md are run by
``tests/service/test_reference.py``, those of the frameworks by ``make integrations``.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hummingbit import cli
from tests.support.docs.doc_blocks import PAGES, ROOT, Block, blocks_of, commands_of

NOT_RUN = {
    "shell": "a shell's own words, docker or curl, which need a network or a service",
    "generated": "a client that `make openapi` generates and runs",
    "text": "what a command prints, a formula, or a folder's files",
    "yaml": "settings of a CI system, or of a generator of clients",
}
"""Kinds of blocks that are not programs of ours, and what they are."""
PROGRAM = re.compile(r"(\.venv/bin/)?(hummingbit|make|python|pip)( |$)", re.MULTILINE)
RUN = ("README.md", "docs/python.md")
"""Pages whose Python is run, in order, with `texts`, `labels`, `more_texts` and `frame` given."""

EXTRAS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
)
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def kind_of(block: Block) -> str:
    if block.language == "typescript" or "hummingbit_api" in block.text:
        return "generated"
    if block.language == "sh":
        first = re.sub(r"^((\w+=\S+ )+)", "", block.text)
        return "command" if PROGRAM.match(first) else "shell"
    return block.language


def of_kind(kind: str) -> list[object]:
    return [pytest.param(block, id=str(block)) for block in BLOCKS if kind_of(block) == kind]


def test_every_block_is_of_a_kind_that_is_held_or_has_a_reason() -> None:
    kinds = {kind_of(block) for block in BLOCKS}
    assert kinds <= {"command", "python", "json", "toml"} | set(NOT_RUN)
    assert sum(kind_of(block) == "command" for block in BLOCKS) > 80


make_parser = cli._parser


@cache
def parser_of(*commands: str) -> argparse.ArgumentParser:
    return make_parser(cli.COMMANDS, commands)


@pytest.fixture
def _parsers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_parser", lambda _, commands: parser_of(*commands))


@pytest.mark.usefixtures("_parsers_are_kept")
@pytest.mark.parametrize("block", of_kind("command"))
def test_commands_are_there(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands_of(block):
        if any(re.search(r"…|\.\.\.|^\[|\w\|\w|,$", word) for word in words):
            continue  # a form that is shown, and not typed
        _check_parsed(words, capsys)
    for target in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE):
        assert f"\n{target}: " in (ROOT / "Makefile").read_text(), target
    for module in re.findall(r"\bpython -m ((?:benchmarks|tests)[\w.]*)", block.text):
        place = ROOT.joinpath(*module.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), module
    for names in re.findall(r"'(?:\.|hummingbit)\[([\w,-]+)\]", block.text):
        assert set(names.split(",")) <= EXTRAS


def _check_parsed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fail unless the parser takes the words, or prints a help or a version that they ask for."""
    status: object = 0
    try:
        cli._parse(words)
    except SystemExit as end:
        status = end.code
    assert status == 0, capsys.readouterr().err


@pytest.mark.parametrize("block", of_kind("python"))
def test_python_compiles_and_its_imports_are_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hummingbit"):
            check_names(str(node.module), [name.name for name in node.names])


def check_names(module: str, names: list[str]) -> None:
    if not module.startswith("hummingbit.integrations"):
        found = importlib.import_module(module)
        assert [name for name in names if not hasattr(found, name)] == []
        return
    # It needs a framework that is not here: its source says what it defines.
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert set(names) <= defined


@pytest.mark.parametrize("block", of_kind("toml"))
def test_toml_is_read(block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", of_kind("json"))
def test_json_is_read(block: Block) -> None:
    for value in values_of(block.text.replace("[...]", "[]").replace("{...}", "{}")):
        assert isinstance(value, dict | list)


def values_of(text: str) -> Iterator[object]:
    decoder, place = json.JSONDecoder(), 0
    while place < len(text):
        value, place = decoder.raw_decode(text, place)
        yield value
        place += len(text[place:]) - len(text[place:].lstrip())


@pytest.mark.parametrize("page", RUN)
def test_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    topics = {
        "travel": "passport renew border visa airport office form embassy",
        "money": "interest rates bank loan credit mortgage market bond",
    }
    texts, labels = [], []
    for number in range(60):
        topic = ("travel", "money")[number % 2]
        words = topics[topic].split()
        texts.append(" ".join(words[number % 5 : number % 5 + 4] + words[number % 3 :: 2]))
        labels.append(topic)
    frame = pandas.DataFrame(
        {
            "key": [f"k{i}" for i in range(60)],
            "title": [text.split()[0] for text in texts],
            "body": texts,
            "topic": labels,
            "year": [2000 + i for i in range(60)],
        }
    )
    names = {"texts": texts, "labels": labels, "more_texts": texts[:5], "frame": frame}
    for block in blocks_of(page):
        if kind_of(block) == "python":
            exec(compile(block.text, str(block), "exec"), names)  # noqa: S102 - our own docs
    if "codes" in names:
        assert names["codes"].shape == (5, 8)
    if "articles" in names:
        names["articles"].close()
