"""What commands and imports of the library do not import before it is used."""

import json
import subprocess
import sys

import pytest

from hummingbit.cli import COMMANDS
from hummingbit.commands.options import SUFFIXES_OF_COLUMNS, SUFFIXES_OF_LINES
from hummingbit.corpus.readers import FORMATS

HEAVY = ("numpy", "scipy", "pydantic", "torch", "sklearn", "httpx", "orjson", "sqlite3")
# Its options are those of an experiment, which is imported.
LIGHT = [name for name in COMMANDS if name != "leaderboard"]


def imported_by(program: str) -> set[str]:
    """Return which of the heavy packages a program imports in a process of its own."""
    listing = f"import json, sys; print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}\n{listing}"], capture_output=True, text=True, check=True
    )
    return {*json.loads(ran.stdout.splitlines()[-1])}


def help_of(command: str) -> str:
    return f"""
import sys
from hummingbit.cli import main
sys.argv[1:] = {[*command.split(), "--help"]}
try:
    main()
except SystemExit as end:
    assert not end.code
"""


@pytest.mark.parametrize("command", ["", *LIGHT])
def test_help_imports_only_what_declares_options(command: str) -> None:
    assert imported_by(help_of(command)) == set()


def test_imports_of_the_library_wait_for_what_few_use() -> None:
    unused = {"scipy", "pydantic", "torch", "sklearn", "httpx"}
    for name in ("Collection", "SemanticHasher"):
        assert not imported_by(f"from hummingbit import {name}") & unused


def test_names_that_waited_are_those_of_a_plain_import() -> None:
    program = """
import importlib, pkgutil, sys
import hummingbit.commands
from hummingbit.deferred import defer_imports, load_deferred
folder = hummingbit.commands.__path__
names = [f"hummingbit.commands.{module.name}" for module in pkgutil.iter_modules(folder)]
defer_imports()
modules = [importlib.import_module(name) for name in names]
assert "numpy" not in sys.modules
load_deferred()
waited = [{**vars(module)} for module in modules]
import ast, inspect
for module, found in zip(modules, waited):
    for statement in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(statement, ast.With) and "deferred" in ast.unparse(statement.items[0]):
            plain = {}
            exec("\\n".join(map(ast.unparse, statement.body)), plain)
            del plain["__builtins__"]
            assert plain and all(found[name] is value for name, value in plain.items())
"""
    assert "numpy" in imported_by(program)


def test_help_names_the_formats_of_files_that_are_read() -> None:
    packed = [suffix for suffix, form in FORMATS.items() if form.can_be_compressed]
    assert [*SUFFIXES_OF_LINES] == packed
    assert [*SUFFIXES_OF_COLUMNS] == [suffix for suffix in FORMATS if suffix not in packed]
