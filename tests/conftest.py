from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.milvus import milvus_server, why_not


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Milvus server that all tests share."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with milvus_server(tmp_path_factory.mktemp("milvus")) as uri:
        yield uri
