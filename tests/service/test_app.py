from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from pydantic import SecretStr

from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import DataFolderInUse, StoreError
from hummingbit.service.app import create_app
from hummingbit.service.jobs.store import JobStoreError
from hummingbit.service.routes.examples import EXAMPLES
from hummingbit.service.schemas import collections, common, encoders, jobs, labels, search
from hummingbit.service.schemas import collections as aliases
from hummingbit.service.schemas import collections as documents
from hummingbit.service.schemas import collections as snapshots
from hummingbit.service.schemas import encoders as embeddings
from hummingbit.service.schemas import jobs as duplicates
from hummingbit.service.schemas import jobs as evaluations
from hummingbit.service.schemas import jobs as maps
from hummingbit.service.schemas import labels as retraining
from hummingbit.service.server import AddressError, bind_listener, serve
from hummingbit.service.settings import Settings
from tests.support.service import ROOT, check_problem, client_of, running_service, serving_process


def test_importing_the_service_loads_neither_torch_nor_sklearn() -> None:
    # The command `search` imports the results, but serves nothing.
    program = """
import sys, hummingbit.service.schemas.search
print("fastapi" in sys.modules)
import hummingbit.service.app
print(sorted({"torch", "sklearn", "scipy.special", "scipy.linalg"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n[]\n"


def test_health_and_encoders(client: httpx.Client) -> None:
    assert client.get("/livez").json() == {"status": "alive"}
    ready = client.get("/readyz").json()
    assert ready["status"] == "ready"
    # A collection that names no encoder brings the one that ships.
    shipped = {"english"}
    assert [name for name in ready["encoders"] if name not in shipped] == ["numbers", "words"]
    encoders = client.get("/v1/encoders").json()["encoders"]
    numbers, words = (encoder for encoder in encoders if encoder["name"] not in shipped)
    assert (numbers["kind"], numbers["n_bits"], numbers["dimension"]) == ("vector", 16, 6)
    assert (words["kind"], words["n_bits"], words["dimension"]) == ("text", 32, None)
    assert words["trained_on"] == "nothing"
    assert len(words["fingerprint"]) == 64
    start = client.get("/").json()
    for name in ("openapi", "docs", "console", "collections"):
        assert client.get(start[name]).status_code == 200, name


def test_a_browser_is_led_to_the_console(client: httpx.Client) -> None:
    led = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert led.status_code == 307
    page = client.get(str(led.url.join(led.headers["location"])))
    assert page.headers["content-type"].startswith("text/html")
    # Programs get the addresses.
    assert client.get("/", headers={"Accept": "*/*"}).json()["console"] == "/console/"


def test_every_answer_carries_a_request_id(client: httpx.Client) -> None:
    assert client.get("/livez", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == (
        "mine-1"
    )
    for given in ("", "a b", "x" * 65):
        response = client.get("/nope", headers={"X-Request-ID": given})
        named = response.headers["x-request-id"]
        assert named not in {"", given}
        assert response.json()["request_id"] == named


WITHOUT_BODY = {
    "/v1/collections/{name}/snapshots",
    "/v1/collections/{name}/verify",
    "/v1/collections/{name}/compact",
    "/v1/jobs/{id}/cancel",
    "/v1/jobs/{id}/confirm",
    "/v1/jobs/{id}/take-back",
}


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        here = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return here + [reference for part in value.values() for reference in references(part)]
    if isinstance(value, list):
        return [reference for part in value for reference in references(part)]
    return []


def test_the_description_is_complete(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    assert client.get("/openapi.json").json() == description
    schemas = description["components"]["schemas"]
    for reference in references(description):
        assert reference.removeprefix("#/components/schemas/") in schemas
    operations = [
        (method, path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    assert operations
    for method, path, operation in operations:
        assert operation["summary"]
        assert "application/problem+json" in operation["responses"]["default"]["content"]
        with_body = method in {"put", "patch"} or (method == "post" and path not in WITHOUT_BODY)
        assert ("requestBody" in operation) == with_body, path


def test_the_examples_are_requests_that_could_be() -> None:
    modules = (
        aliases,
        collections,
        common,
        documents,
        duplicates,
        embeddings,
        encoders,
        evaluations,
        jobs,
        labels,
        maps,
        retraining,
        search,
        snapshots,
    )
    models = {name: model for module in modules for name, model in vars(module).items()}
    for name, example in EXAMPLES.items():
        models[name].model_validate(example)


def test_every_schema_has_an_example_that_it_allows(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    for name, schema in description["components"]["schemas"].items():
        whole = {**schema, "components": description["components"]}
        (example,) = schema["examples"]
        problems = [*Draft202012Validator(whole).iter_errors(example)]
        assert problems == [], (name, example)


def test_no_field_of_a_body_has_a_default_and_no_number_is_a_constant(client: httpx.Client) -> None:
    """Generators take such a field for required, and such a number for a class of its own."""
    description = client.get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    waiting = [
        reference
        for methods in description["paths"].values()
        for operation in methods.values()
        for reference in references(operation.get("requestBody", {}))
    ]
    bodies: set[str] = set()
    while waiting:
        name = waiting.pop().rpartition("/")[2]
        if name not in bodies:
            bodies.add(name)
            waiting += references(schemas[name])
    assert len(bodies) > 40
    for name in bodies:
        for field, about in schemas[name].get("properties", {}).items():
            assert "default" not in about, (name, field)
    assert "Default: 10." in schemas["SearchRequest"]["properties"]["limit"]["description"]
    assert [value for value in constants(description) if type(value) is int] == []


def constants(value: Any) -> list[Any]:
    if isinstance(value, dict):
        here = [value["const"]] if "const" in value else []
        return here + [constant for part in value.values() for constant in constants(part)]
    if isinstance(value, list):
        return [constant for part in value for constant in constants(part)]
    return []


def test_every_body_has_an_example(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    for methods in description["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if content["schema"].get("format") == "binary":
                    continue
                schema = content["schema"].get("$ref", "").rpartition("/")[2]
                assert (
                    "example" in content or description["components"]["schemas"][schema]["examples"]
                )


def test_an_error_nobody_thought_of_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(DataFolder):
        served = False

        def collections(self) -> Any:
            if self.served:
                raise StoreError(f"{self.path}: disk I/O error")
            return super().collections()

    def names() -> list[str]:
        raise RuntimeError("secret")

    folder = Broken(tmp_path, writable=True)
    with folder, running_service(folder) as client:
        folder.served = True
        monkeypatch.setattr(folder.encoders, "names", names)
        response = client.get("/v1/encoders")
        problem = check_problem(response, 500, "internal_error")
        assert "secret" not in response.text
        assert problem["request_id"]
        response = client.get("/v1/collections")
        check_problem(response, 503, "storage_failed")
        assert str(tmp_path) not in response.text


def test_the_application_opens_and_closes_the_folder(tmp_path: Path) -> None:
    with running_service(tmp_path) as client:
        assert client.put("/v1/collections/a", json={"n_bits": 8}).status_code == 201
        with pytest.raises(DataFolderInUse):
            DataFolder(tmp_path, writable=True)
    with DataFolder(tmp_path, writable=True) as folder:
        assert list(folder.collections()) == ["a"]
        assert isinstance(create_app(folder), FastAPI)


@pytest.mark.parametrize("is_defect", [False, True])
def test_a_start_that_fails_says_why_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_defect: bool
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "jobs.sqlite").write_bytes(b"nonsense" * 600)
    if is_defect:
        monkeypatch.setattr("hummingbit.service.app.log_problems", lambda _: 1 / 0)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(ZeroDivisionError if is_defect else JobStoreError):
        asyncio.run(create_app(tmp_path)({"type": "lifespan"}, receive, send))
    (message,) = sent
    assert message["type"] == "lifespan.startup.failed"
    path = tmp_path / "jobs" / "jobs.sqlite"
    if is_defect:
        assert message["message"].startswith("Traceback")
    else:
        assert message["message"].startswith(f"{path}: file is not a database; the file is damaged")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_stops_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with serving_process(tmp_path) as (process, address), client_of(address) as client:
        assert client.put("/v1/collections/a", json={"n_bits": 8}).status_code == 201
        process.send_signal(number)
        assert process.wait(timeout=120) == 0
    assert not list(tmp_path.glob("collections/*/*-wal"))


def test_what_keeps_the_service_from_starting(tmp_path: Path, client: httpx.Client) -> None:
    with DataFolder(tmp_path, writable=True), pytest.raises(DataFolderInUse):
        serve(Settings(data_dir=tmp_path, port=0))
    port = client.base_url.port
    assert port is not None
    with pytest.raises(AddressError, match=f"cannot listen on 127.0.0.1 port {port}"):
        serve(Settings(data_dir=tmp_path, port=port))
    key = SecretStr("k" * 32)
    with pytest.raises(AddressError, match=r"cannot listen on 256\.0\.0\.1 port 0"):
        serve(Settings(data_dir=tmp_path, host="256.0.0.1", port=0, admin_key=key))
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):  # noqa: S104 - none is listened on
        with pytest.raises(AddressError, match=f"host is {host}, which others can reach"):
            serve(Settings(data_dir=tmp_path, host=host, port=0))


def test_answers_are_not_held_back_to_fill_a_packet() -> None:
    with bind_listener("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                # What asyncio asks for before it sets TCP_NODELAY.
                assert accepted.proto == socket.IPPROTO_TCP
