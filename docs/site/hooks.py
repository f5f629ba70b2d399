"""Pages of the documentation that are made when it is built.

The front page is the README. The references of the command line and of REST are read from the code.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hummingbit.cli import COMMANDS, main
from hummingbit.service.app import create_app

ROOT = Path(__file__).parents[2]
OF_THE_REPOSITORY = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    for source, target in OF_THE_REPOSITORY.items():
        text = (ROOT / source).read_text().replace("](docs/", "](")
        for name, page in OF_THE_REPOSITORY.items():
            text = text.replace(f"]({name}", f"]({page}")
        files.append(File.generated(config, target, content=text))
    files.append(File.generated(config, "commands.md", content="\n".join(command_reference())))
    files.append(File.generated(config, "rest.md", content="\n".join(rest_reference())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their pages."""
    for source, target in OF_THE_REPOSITORY.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out the roles that docstrings give to names."""
    return re.sub(r":(?:attr|class|data|func|meth|mod):(?=<code>)", "", html)


def command_reference() -> Iterator[str]:
    """Return a chapter for each command, with its help."""
    yield "# Commands\n"
    for name, command in COMMANDS.items():
        summary = command.summary
        yield f"## hummingbit {name}\n\n{summary[0].upper()}{summary[1:]}.\n"
        yield "```text\n" + help_of([*name.split(), "--help"]) + "\n```\n"


def help_of(arguments: list[str]) -> str:
    """Return what a command prints for ``--help``."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main(arguments)
    return printed.getvalue().rstrip()


def rest_reference() -> Iterator[str]:
    """Return a chapter for each address, from the OpenAPI description."""
    with TemporaryDirectory() as folder:
        description = json.loads(create_app(Path(folder)).state.description())
    yield "# REST reference\n"
    yield "A service describes itself at `/openapi.json` and, for reading, at `/docs`.\n"
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            yield f"## {method.upper()} {path}\n"
            yield f"**{operation['summary']}.** {operation.get('description', '')}\n"
            yield from _parameters(operation)
            yield from _fields(operation, description["components"]["schemas"])
            yield _responses(operation)


def _parameters(operation: dict[str, Any]) -> Iterator[str]:
    given = [
        parameter for parameter in operation.get("parameters", []) if parameter.get("description")
    ]
    if given:
        yield "| parameter | in | meaning |\n|---|---|---|"
        for parameter in given:
            meaning = _line(parameter["description"])
            yield f"| `{parameter['name']}` | {parameter['in']} | {meaning} |"
        yield ""


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, body in content.items():
        name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
        fields = schemas.get(name, {}).get("properties", {})
        yield f"Body: `{media_type}`\n"
        if fields:
            required = set(schemas[name].get("required", ()))
            yield "| field | type | |\n|---|---|---|"
            for field, about in fields.items():
                meaning = _line(about.get("description", ""))
                needed = "required. " if field in required else ""
                yield f"| `{field}` | {_type(about)} | {needed}{meaning} |"
            yield ""


def _type(about: dict[str, Any]) -> str:
    if "$ref" in about:
        return str(about["$ref"].rpartition("/")[2])
    if "anyOf" in about:
        kinds = [_type(type_) for type_ in about["anyOf"]]
        return " or ".join(kind for kind in kinds if kind != "null")
    if about.get("type") == "array":
        return f"list of {_type(about.get('items', {}))}"
    return str(about.get("type", "any"))


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _responses(operation: dict[str, Any]) -> str:
    codes = ", ".join(
        f"{code} {response['description']}" for code, response in operation["responses"].items()
    )
    return f"Responses: {codes}.\n"
