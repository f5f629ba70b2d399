from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.service.http.limits import SENT_AT_ONCE
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.schemas.search import answer_to_json
from hummingbit.service.settings import Settings
from tests.support.service import check_problem, running_service

entries = st.lists(st.dictionaries(st.text(max_size=3), st.integers(0, 2**70)), max_size=40)
answers = st.fixed_dictionaries(
    {},
    optional={
        "hits": entries,
        "documents": entries | st.integers(0, 9),
        "took_ms": st.floats(0, 9),
        "missing": entries,
    },
)
batches = st.fixed_dictionaries({"results": st.lists(answers, max_size=20)})


@given(answers | batches)
def test_pieces_make_up_the_answer(answer: dict[str, Any]) -> None:
    written = answer_to_json(answer, 1 << 30)
    assert json.loads(written) == json.loads(json.dumps(answer))
    assert answer_to_json(answer, len(written)) == written
    with pytest.raises(ProblemError):
        answer_to_json(answer, len(written) - 1)


def test_answers_beyond_the_limit(tmp_path: Path) -> None:
    path = "/v1/collections/c"
    with running_service(tmp_path, Settings(max_response_bytes=1 << 20)) as client:
        client.put(path, json={"n_bits": 8})
        payload = {"x": "x" * 10_000}
        documents = [{"id": str(i), "code": "00", "payload": payload} for i in range(50)]
        assert client.put(f"{path}/documents", json={"documents": documents}).status_code == 200
        search: dict[str, Any] = {"code": "00", "limit": 50, "with_payload": True}
        response = client.post(f"{path}/search", json=search)
        assert len(response.content) > SENT_AT_ONCE
        assert len(response.json()["hits"]) == 50
        batch = {"searches": [search] * 10}
        response = client.post(f"{path}/search/batch", json=batch)
        check_problem(response, 422, "answer_too_large")
        assert client.post(f"{path}/search/batch", json={"searches": [search]}).status_code == 200


def test_pages_of_large_documents_end_early(tmp_path: Path) -> None:
    path = "/v1/collections/c"
    with running_service(tmp_path, Settings(max_response_bytes=1 << 20)) as client:
        client.put(path, json={"n_bits": 8})
        payload = {"x": "x" * 9_000}
        documents = [{"id": str(i), "code": "00", "payload": payload} for i in range(300)]
        assert client.put(f"{path}/documents", json={"documents": documents}).status_code == 200
        found: list[str] = []
        cursor, pages = None, 0
        while cursor is not None or not pages:
            body = {"limit": 300, "cursor": cursor}
            page = client.post(f"{path}/documents:scroll", json=body).raise_for_status().json()
            found += [document["id"] for document in page["documents"]]
            cursor = page["next_cursor"]
            pages += 1
        assert found == [str(i) for i in range(300)]
        assert pages > 2
        response = client.post(f"{path}/documents:get", json={"ids": found})
        check_problem(response, 422, "answer_too_large")
