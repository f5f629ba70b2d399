"""The page docs/clients.md as a reader follows it: generators from the registries, and a service.

``make openapi`` installs the generators into ``build/openapi`` and runs these tests.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from hummingbit.service.settings import Settings
from tests.support.docs.doc_blocks import blocks_of
from tests.support.service import make_data_folder, running_service

pytestmark = pytest.mark.openapi

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "openapi"
NODE_TOOLS = TOOLS / "node_modules" / ".bin"
PYTHON_TOOLS = TOOLS / "venv" / "bin"
COMPILE = (
    *("tsc", "--strict", "--target", "es2022", "--module", "es2022"),
    *("--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable"),
)
DOCUMENTS = [
    {"id": "old", "text": "eigenvalues of a matrix", "payload": {"year": 1990}},
    {"id": "draft", "text": "eigenvalues of a matrix", "payload": {"year": 2001, "draft": True}},
    {"id": "new", "text": "eigenvalues of a matrix", "payload": {"year": 2010}},
]
needs_node = pytest.mark.skipif(
    not NODE_TOOLS.is_dir(), reason="npm is missing, or make openapi did not run"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a reader: the address of a service with three articles, and its key."""
    admin, read = secrets.token_hex(32), secrets.token_hex(32)
    settings = Settings(admin_key=SecretStr(admin), read_key=SecretStr(read))
    data = make_data_folder(tmp_path_factory.mktemp("service"))
    with running_service(data, settings) as client:
        authorized = httpx.Client(
            base_url=client.base_url, headers={"Authorization": f"Bearer {admin}"}
        )
        with authorized:
            path = "/v1/collections/articles"
            authorized.put(path, json={"encoder": "words"}).raise_for_status()
            body = {"documents": DOCUMENTS}
            authorized.put(f"{path}/documents", json=body).raise_for_status()
        url = str(client.base_url).rstrip("/")
        yield {"HUMMINGBIT_URL": url, "HUMMINGBIT_KEY": read, "ADMIN_KEY": admin}


@pytest.fixture(scope="module")
def description(service: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = service["HUMMINGBIT_KEY"]
    response = httpx.get(
        f"{service['HUMMINGBIT_URL']}/openapi.json", headers={"Authorization": f"Bearer {key}"}
    )
    path = tmp_path_factory.mktemp("description") / "openapi.json"
    path.write_bytes(response.raise_for_status().content)
    return path


@pytest.fixture
def folder(description: Path, tmp_path: Path) -> Path:
    """A reader's folder, with the description in it."""
    shutil.copy(description, tmp_path)
    return tmp_path


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    path = os.pathsep.join([str(NODE_TOOLS), str(PYTHON_TOOLS), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def block(start: str) -> str:
    (found,) = [
        document.text
        for document in blocks_of("docs/clients.md")
        if document.text.startswith(start)
    ]
    return found


def generate(name: str, folder: Path) -> None:
    """Run the command of the page for a generator, which must not warn of anything."""
    page = (ROOT / "docs" / "clients.md").read_text()
    (line,) = re.findall(rf"^(?:npx )?({name} .*openapi\.json.*)$", page, re.MULTILINE)
    if "client.yaml" in line:
        (folder / "client.yaml").write_text(block("content_type_overrides"))
    assert not re.search("warning|not be generated", run(*line.split(), folder=folder), re.I)


@needs_node
def test_spectral_has_nothing_to_say(folder: Path) -> None:
    ruleset = Path(__file__).with_name(".spectral.yaml")
    spectral = ("spectral", "lint", "openapi.json", "--fail-severity", "hint", "--ruleset")
    run(*spectral, ruleset, folder=folder)


@needs_node
def test_a_typescript_client_searches(folder: Path, service: dict[str, str]) -> None:
    (folder / "node_modules").symlink_to(TOOLS / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "search.ts").write_text(block("import createClient"))
    generate("openapi-typescript", folder)
    run(*COMPILE, "search.ts", folder=folder)
    found = run("node", "search.js", folder=folder, **service)
    assert [line.split()[0] for line in found.splitlines()] == ["new"]


@needs_node
def test_typescript_refuses_what_is_no_filter(folder: Path) -> None:
    (folder / "node_modules").symlink_to(TOOLS / "node_modules")
    generate("openapi-typescript", folder)
    (folder / "wrong.ts").write_text(
        'import type { components } from "./hummingbit";\n'
        'type Filter = components["schemas"]["Filter"];\n'
        "// @ts-expect-error: there is no condition of that name\n"
        'export const unknown: Filter = { field: "year", above: 2000 };\n'
        "// @ts-expect-error: a list is missing\n"
        'export const single: Filter = { and: { field: "year", eq: 2000 } };\n'
    )
    run(*COMPILE, "wrong.ts", folder=folder)


def test_a_python_client_searches(folder: Path, service: dict[str, str]) -> None:
    generate("openapi-python-client", folder)
    (folder / "find.py").write_text(block("import os"))
    found = run(PYTHON_TOOLS / "python", "find.py", folder=folder, **service)
    assert {line.split()[0] for line in found.splitlines()} == {"draft", "new"}


def test_a_python_client_has_every_operation_and_sends_json_lines(
    folder: Path, service: dict[str, str], description: Path
) -> None:
    generate("openapi-python-client", folder)
    operations = {
        operation["operationId"]
        for methods in json.loads(description.read_text())["paths"].values()
        for operation in methods.values()
    }
    made = {path.stem for path in (folder / "hummingbit_api" / "api").glob("*/*.py")}
    assert operations <= made
    (folder / "write.py").write_text(block("import io"))
    key = {"HUMMINGBIT_KEY": service["ADMIN_KEY"]}
    written = run(PYTHON_TOOLS / "python", "write.py", folder=folder, **{**service, **key})
    assert written == "1 written\n"
    with httpx.Client(base_url=service["HUMMINGBIT_URL"]) as client:
        headers = {"Authorization": f"Bearer {service['ADMIN_KEY']}"}
        path = "/v1/collections/articles/documents/newest"
        client.delete(path, headers=headers).raise_for_status()
