"""Pages of the documentation that are made when it is built.

The front page is the README. The references of the command line and of REST are read from the code.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
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
    "SECURITY.md": "security.md",
    "experiments/leaderboard/README.md": "leaderboard.md",
    "experiments/ssb_vae/paper.md": "ssb-vae-paper.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    for source, target in OF_THE_REPOSITORY.items():
        text = re.sub(r"\]\((\.\./)*docs/", "](", (ROOT / source).read_text())
        for name, page in OF_THE_REPOSITORY.items():
            text = text.replace(f"]({name}", f"]({page}")
        files.append(File.generated(config, target, content=text))
    files.append(File.generated(config, "commands.md", content="\n".join(command_reference())))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"{path.stem}.md", content="\n".join(notebook(path))))
    for name, text in rest_reference():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their pages."""
    for source, target in OF_THE_REPOSITORY.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    return re.sub(r"\]\(notebooks/(\w+)\.ipynb\)", r"](\1.md)", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave out the roles that docstrings give to names."""
    return re.sub(r":(?:attr|class|data|func|meth|mod):(?=<code>)", "", html)


def notebook(path: Path) -> Iterator[str]:
    """Return a notebook as a page: its texts, its code, and what the code printed and drew."""
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source + "\n"
            continue
        yield f"```python\n{source}\n```\n"
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = "".join(data["image/png"].split())
                yield f"![What the code above draws](data:image/png;base64,{picture})\n"
            elif "text/html" in data:
                table = re.sub(
                    r"<style.*?</style>|\n\s*", "", "".join(data["text/html"]), flags=re.S
                )
                yield table.replace(' border="1" class="dataframe"', "")
                yield ""
            elif output.get("text") or data.get("text/plain"):
                printed = "".join(output.get("text") or data["text/plain"])
                yield f"```text\n{printed.rstrip()}\n```\n"


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


def rest_reference() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page about REST: what is common, and one for each tag."""
    with TemporaryDirectory() as folder:
        description = json.loads(create_app(Path(folder)).state.description())
    operations = [
        (path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    yield "rest.md", "\n".join(_common_part(description, operations))
    for tag in description["tags"]:
        lines = [f"# {tag['name'].capitalize()}\n", f"{tag['description']}\n"]
        for path, method, operation in operations:
            if tag["name"] in operation["tags"]:
                lines += _operation(path, method, operation, description)
        yield f"rest-{tag['name']}.md", "\n".join(lines)


Operation = tuple[str, str, dict[str, Any]]


def _common_part(description: dict[str, Any], operations: list[Operation]) -> Iterator[str]:
    """Return the front page: the operations by tag, and the errors that most of them share."""
    yield "# REST reference\n"
    yield "A service describes itself at `/openapi.json` and, for reading, at `/docs`. The tasks"
    yield "and their commands are in [The service](service.md).\n"
    for tag in description["tags"]:
        page = f"rest-{tag['name']}.md"
        yield f"## {tag['name'].capitalize()}\n\n{tag['description']}\n"
        yield "| operation | |\n|---|---|"
        for path, method, operation in operations:
            if tag["name"] in operation["tags"]:
                link = f"[`{method.upper()} {path}`]({page}#{_anchor(operation)})"
                yield f"| {link} | {operation['summary']} |"
        yield ""
    yield "## Errors\n"
    yield "An error is an object of problem details (RFC 9457). `code` names the kind of problem"
    yield "and is stable, `detail` is a sentence, `errors` points to the fields. Any operation may"
    yield "answer:\n"
    yield "| status | meaning |\n|---|---|"
    for status, meaning in sorted(_shared_errors(operations).items()):
        yield f"| {status} | {meaning} |"
    yield ""


def _shared_errors(operations: list[Operation]) -> dict[str, str]:
    """Return the errors of at least a third of the operations, and their most frequent meaning."""
    meanings = Counter(
        (status, response["description"])
        for _, _, operation in operations
        for status, response in operation["responses"].items()
        if status[0] in "45"
    )
    shared: dict[str, str] = {}
    for (status, meaning), times in meanings.most_common():
        if times >= len(operations) / 3:
            shared.setdefault(status, meaning)
    return shared


def _anchor(operation: dict[str, Any]) -> str:
    return str(operation["operationId"]).replace("_", "-")


def _operation(
    path: str, method: str, operation: dict[str, Any], description: dict[str, Any]
) -> Iterator[str]:
    schemas = description["components"]["schemas"]
    yield f"## {operation['summary']} {{ #{_anchor(operation)} }}\n"
    yield f"```http\n{method.upper()} {path}\n```\n"
    yield f"{operation.get('description', '')}\n"
    yield from _parameters(operation)
    yield from _fields(operation, schemas)
    yield from _responses(operation, schemas)


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
        schema = body.get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
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
        if media_type == "application/json" and schema:
            yield from _example("An example of a body", schema, schemas)


def _responses(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    for status, response in operation["responses"].items():
        if status[0] != "2":
            continue
        meaning = response["description"].replace("Successful Response", "done")
        yield f"**{status}**: {meaning.rstrip('.')}.\n"
        for media_type, body in response.get("content", {}).items():
            if media_type == "application/json" and body.get("schema"):
                yield from _example("An example of a response", body["schema"], schemas)


def _example(title: str, schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    """Yield the example of a schema, if it is one of the components."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name not in schemas:
        return
    written = json.dumps(schemas[name]["examples"][0], indent=2, ensure_ascii=False)
    yield f'??? example "{title}"\n'
    yield "    ```json"
    yield "\n".join(f"    {line}" for line in written.splitlines())
    yield "    ```\n"


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
