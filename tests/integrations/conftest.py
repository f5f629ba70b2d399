"""The tests of integrations run by ``make integrations``, in an environment that has them all."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hummingbit import Client, Collection, SemanticHasher, ServedCollection
from hummingbit.service.http.keys import create_key
from tests.support.service import service_with_keys

# The examples are the same in every run, as in the rest of the suite.
settings.register_profile(
    "same-examples",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=True,
)
settings.load_profile("same-examples")


class Served:
    """A service with two workers that ask for a key."""

    def __init__(self, data: Path, url: str, key: str) -> None:
        self.data, self.url, self.key = data, url, key
        self.client = Client(url, key)
        self.limited: list[Client] = []

    def create(self, hasher: SemanticHasher) -> ServedCollection:
        """Create a collection for an estimator's codes; refer to it with a key for nothing else."""
        name = f"c{uuid.uuid4().hex[:12]}"
        hasher.save(self.data / "encoders" / name)
        self.client.create_collection(name, encoder=name)
        key = create_key(self.data / "keys.json", name, "write", collections=[name])
        self.limited.append(Client(self.url, key))
        return ServedCollection(self.limited[-1], name)

    def close(self) -> None:
        """Close all clients."""
        for client in (self.client, *self.limited):
            client.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve an empty data folder."""
    data = tmp_path_factory.mktemp("served")
    with service_with_keys(data) as (url, key), closing(Served(data, url, key)) as served:
        yield served


@pytest.fixture(params=["folder", "service"])
def by_words(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Collection | ServedCollection]:
    """Yield a collection without an encoder, of a folder or of a service."""
    if request.param == "service":
        client = request.getfixturevalue("served").client
        name = f"c{uuid.uuid4().hex[:12]}"
        client.create_collection(name, encoder=None)
        yield ServedCollection(client, name)
        return
    with Collection.create(tmp_path / "words", "notes", encoder=None) as collection:
        yield collection


# The framework of each test file; without it the file is not collected.
NEEDS = {
    "test_langchain.py": "langchain_tests",
    "test_haystack.py": "haystack",
    "test_llama_index.py": "llama_index",
    "test_mcp.py": "mcp",
    "test_openai.py": "openai",
    "test_onnx.py": "onnxruntime",
    "test_hub.py": "huggingface_hub",
    "test_quantized.py": "sentence_transformers",
    "test_mteb.py": "mteb",
    "test_beir.py": "beir",
    "test_dask.py": "distributed",
}
collect_ignore = [
    name for name, module in NEEDS.items() if importlib.util.find_spec(module) is None
]
