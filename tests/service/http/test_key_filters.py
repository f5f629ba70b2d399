"""Keys with a filter: no answer of any request holds anything of the other tenant's documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit import Client, Collection, ServedCollection
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.errors import ServiceError
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.filtered import FilteredCollection
from hummingbit.index.filters import parse_filter
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.service.http.keys import KeysError, create_key
from hummingbit.service.settings import Settings
from tests.support.service import SECONDS, make_data_folder, running_app, service_with_keys

# A fifth of what other properties have: there are many operations, and each asks a service twice.
EXAMPLES = settings().max_examples // 5
OWN_WORDS = ["amber", "basalt", "copper"]
OTHER_WORDS = ["xylem", "yarrow", "zinnia"]
SECRETS = ("xylem", "yarrow", "zinnia", "other-", "beta")
"""Parts of the other tenant's texts, ids and payloads."""


def documents(tenant: str, prefix: str, words: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{prefix}-{at}",
            "text": f"{words[at % 3]} {words[at % 2]} shared",
            "payload": {"tenant": tenant, "label": words[at % 3], "year": at},
        }
        for at in range(6)
    ]


class Tenant(NamedTuple):
    url: str
    key: str
    admin: str
    reader: str
    keys: Path

    def http(self, key: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=SECONDS)


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    path = make_data_folder(tmp_path_factory.mktemp("tenants"))
    # One worker: another follows a collection that is made anew only after a moment.
    with service_with_keys(path) as (url, admin):
        own = parse_filter({"field": "tenant", "eq": "alpha"})
        key = create_key(path / "keys.json", "own", "write", collections=["notes"], filter=own)
        reader = create_key(path / "keys.json", "r", "read", collections=["notes"], filter=own)
        yield Tenant(url, key, admin, reader, path / "keys.json")


@pytest.fixture(autouse=True)
def _filled(tenant: Tenant) -> None:
    with tenant.http(tenant.admin) as http:
        http.delete("/v1/collections/notes")
        http.put("/v1/collections/notes", json={"encoder": "words", "indexed_fields": ["tenant"]})
        http.patch("/v1/collections/notes", json={"ranking": "hybrid"})
        both = documents("alpha", "own", OWN_WORDS) + documents("beta", "other", OTHER_WORDS)
        answer = http.put("/v1/collections/notes/documents", json={"documents": both})
        assert answer.status_code == 200, answer.text


Request = tuple[str, str, Any]
NOTES = "/v1/collections/notes"
IDS = st.sampled_from([f"{of}-{at}" for of in ("own", "other") for at in range(7)])
WORDS = st.sampled_from([*OWN_WORDS, *OTHER_WORDS, "shared", "xylm", "yarr", "ambr", '"xylem"'])
CONDITIONS = st.one_of(
    st.none(),
    st.builds(lambda word: {"field": "label", "eq": word}, WORDS),
    st.just({"field": "tenant", "eq": "beta"}),
    st.just({"not": {"field": "tenant", "eq": "alpha"}}),
    st.just({"or": [{"field": "tenant", "eq": "beta"}, {"field": "year", "gte": 0}]}),
    st.builds(lambda item: {"has_id": [item]}, IDS),
)
QUERIES = st.one_of(
    st.builds(lambda word: {"text": word}, WORDS), st.builds(lambda item: {"id": item}, IDS)
)
SEARCHES = st.fixed_dictionaries(
    {"limit": st.integers(1, 20)},
    optional={
        "filter": CONDITIONS,
        "with_payload": st.booleans(),
        "with_text": st.booleans(),
        "ranking": st.sampled_from(["hamming", "hybrid", "bm25", "asymmetric"]),
        "facets": st.just([{"field": "label"}, {"field": "tenant"}]),
        "group_by": st.just("label"),
        "highlight": st.booleans(),
        "explain": st.booleans(),
        "syntax": st.sampled_from(["query", "plain"]),
    },
)
DOCUMENTS = st.builds(
    lambda one, word, name: {"id": one, "text": word, "payload": {"tenant": name, "label": word}},
    IDS,
    st.sampled_from(OWN_WORDS),
    st.sampled_from(["alpha", "beta"]),
)
UPDATES = st.builds(
    lambda target, value: {**target, **value},
    st.one_of(
        st.builds(lambda item: {"ids": [item]}, IDS),
        st.builds(lambda item: {"filter": item or {"field": "year", "gte": 0}}, CONDITIONS),
    ),
    st.sampled_from(
        [
            {"set": {"seen": True}},
            {"set": {"tenant": "beta"}},
            {"remove": ["tenant"]},
            {"overwrite": {"label": "amber"}},
        ]
    ),
)


def post(path: str, body: st.SearchStrategy[Any]) -> st.SearchStrategy[Request]:
    return st.tuples(st.just("POST"), st.just(f"{NOTES}{path}"), body)


def without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


REQUESTS: dict[str, st.SearchStrategy[Request]] = {
    "get_collection": st.just(("GET", NOTES, None)),
    "get_document": st.builds(lambda item: ("GET", f"{NOTES}/documents/{item}", None), IDS),
    "delete_document": st.builds(lambda item: ("DELETE", f"{NOTES}/documents/{item}", None), IDS),
    "get_documents": post("/documents:get", st.builds(lambda ids: {"ids": ids}, st.lists(IDS))),
    "scroll_documents": post(
        "/documents:scroll", st.builds(lambda item: without_none(filter=item), CONDITIONS)
    ),
    "count_documents": post(
        "/documents:count", st.builds(lambda item: without_none(filter=item), CONDITIONS)
    ),
    "count_facets": post(
        "/facets",
        st.builds(
            lambda item: without_none(
                filter=item, facets=[{"field": "label"}, {"field": "tenant"}]
            ),
            CONDITIONS,
        ),
    ),
    "delete_documents": post(
        "/documents:delete",
        st.one_of(
            st.builds(lambda ids: {"ids": ids}, st.lists(IDS, min_size=1)),
            st.builds(lambda item: {"filter": item or {"field": "year", "gte": 4}}, CONDITIONS),
        ),
    ),
    "update_payload": post(
        "/documents:payload",
        st.builds(lambda some: {"updates": some}, st.lists(UPDATES, min_size=1, max_size=3)),
    ),
    "upsert_documents": st.builds(
        lambda some: ("PUT", f"{NOTES}/documents", {"documents": some}),
        st.lists(DOCUMENTS, min_size=1, max_size=3),
    ),
    "upsert_documents_in_bulk": st.builds(
        lambda some: ("POST", f"{NOTES}/documents:bulk", "\n".join(map(json.dumps, some))),
        st.lists(DOCUMENTS, min_size=1, max_size=3),
    ),
    "search": post("/search", st.builds(lambda one, query: {**one, **query}, SEARCHES, QUERIES)),
    "search_batch": post(
        "/search/batch",
        st.builds(
            lambda some, filter_: without_none(searches=some, filter=filter_),
            st.lists(QUERIES, min_size=1, max_size=3),
            CONDITIONS,
        ),
    ),
    "recommend_documents": post(
        "/recommend",
        st.builds(
            lambda positive, negative: {
                "positive": positive,
                "negative": negative,
                "with_payload": True,
                "with_text": True,
            },
            st.lists(st.one_of(IDS, QUERIES), min_size=1, max_size=2),
            st.lists(IDS, max_size=1),
        ),
    ),
    "complete_query": st.builds(
        lambda word: ("GET", f"{NOTES}/completions?text={word.strip(chr(34))}", None), WORDS
    ),
    "encode": post("/encode", st.builds(lambda word: {"inputs": [{"text": word}]}, WORDS)),
}
"""Requests to every route that applies the filter of a key."""
OF_NO_DOCUMENT = {"get_livez", "get_access"}
"""Routes whose answers say nothing of documents."""


def send(http: httpx.Client, method: str, path: str, body: Any) -> httpx.Response:
    if isinstance(body, str):
        headers = {"Content-Type": "application/x-ndjson"}
        return http.request(method, path, content=body, headers=headers)
    return http.request(method, path, json=body)


def others(http: httpx.Client) -> list[dict[str, Any]]:
    answer = http.post(f"{NOTES}/documents:scroll", json={"with_payload": True})
    assert answer.status_code == 200, answer.text
    documents: list[dict[str, Any]] = answer.json()["documents"]
    return [document for document in documents if document["payload"].get("tenant") != "alpha"]


def is_secret(answer: str, request: Request) -> str | None:
    """Return a part of the other tenant's documents in an answer that the request did not name."""
    named = json.dumps(request)
    return next((secret for secret in SECRETS if secret in answer and secret not in named), None)


def test_every_route_applies_the_filter_or_refuses_the_key(tenant: Tenant) -> None:
    with tenant.http(tenant.admin) as everything, tenant.http(tenant.key) as http:
        paths = everything.get("/openapi.json").json()["paths"]
        applied = set()
        for path, operations in paths.items():
            for method, operation in operations.items():
                if "x-key-filter" in operation and operation["operationId"] not in OF_NO_DOCUMENT:
                    applied.add(operation["operationId"])
                    continue
                address = path.replace("{name}", "notes").replace("{id}", "own-1")
                body: object = {} if "requestBody" in operation else None
                answer = http.request(method, address, json=body)
                if operation["operationId"] in OF_NO_DOCUMENT:
                    assert answer.status_code == 200
                    assert is_secret(answer.text, (method, path, None)) is None
                    continue
                assert answer.status_code == 403, (method, path, answer.text)
                if path.startswith("/v1/collections/{name}") and operation["x-role"] != "admin":
                    assert "the key has a filter" in answer.json()["detail"], path
                    assert answer.json()["code"] == "beyond_filter"
        assert applied == REQUESTS.keys()
        asynchronous = {"Prefer": "respond-async", "Content-Type": "application/x-ndjson"}
        answer = http.post(f"{NOTES}/documents:bulk", content=b"", headers=asynchronous)
        assert answer.status_code == 403


@pytest.mark.parametrize("operation", REQUESTS)
def test_no_answer_holds_anything_of_the_other_tenant(tenant: Tenant, operation: str) -> None:
    requests = REQUESTS[operation]
    with tenant.http(tenant.admin) as everything, tenant.http(tenant.key) as http:
        before = others(everything)
        statuses = set()

        @settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck], deadline=None)
        @given(requests)
        def check(request: Request) -> None:
            answer = send(http, *request)
            statuses.add(answer.status_code)
            assert answer.status_code in {200, 204, 404, 422}, answer.text
            assert is_secret(answer.text, request) is None, answer.text
            if answer.status_code == 200 and operation not in {"encode", "get_collection"}:
                for place in ("other-", '"beta"'):
                    # What was named may be said to be missing, but nothing of it is returned.
                    rest = {**answer.json(), "missing": [], "errors": [], "warnings": []}
                    assert place not in json.dumps(rest), answer.text
            assert others(everything) == before

        check()
        assert statuses & {200, 204}


def test_the_tenant_sees_its_own_documents_as_if_they_were_all(tenant: Tenant) -> None:
    with Client(tenant.url, tenant.key) as client:
        assert client.count("notes") == 6
        assert client.collection("notes")["documents"] == 6
        hits = client.search("notes", "shared", limit=50, ranking="bm25")["hits"]
        assert {hit["id"] for hit in hits} == {f"own-{at}" for at in range(6)}
        facets = client.facets("notes", ["tenant"])
        assert [bucket["value"] for bucket in facets["facets"][0]["buckets"]] == ["alpha"]
        with pytest.raises(ServiceError) as missing:
            client.get("notes", "other-1")
        assert missing.value.status == 404
        with pytest.raises(ServiceError) as unknown:
            client.search("notes", id="other-1")
        assert unknown.value.status == 404
        assert client.delete_many("notes", ids=["own-1", "other-1"])["deleted"] == 1
        notes = ServedCollection(client, "notes")
        assert len(notes) == 5


def without_counts(answer: Any) -> Any:
    """Return an answer without what counts all writes and what takes time."""
    if isinstance(answer, dict):
        left_out = ("generation", "took_ms", "next_cursor")
        return {name: without_counts(item) for name, item in answer.items() if name not in left_out}
    return [*map(without_counts, answer)] if isinstance(answer, list) else answer


def test_no_answer_depends_on_the_documents_of_the_other_tenant(tenant: Tenant) -> None:
    texts = ['"xylem shared" amber', '"xylem yarrow" amber', "amber xyl*", "xylm amber", "zinnia"]
    texts += ["amber", "shared", "ambr", "basalt copper shared", "label:xylem amber", "-xylem"]
    how: list[dict[str, Any]] = [
        {"with_confidence": True, "ranking": ranking, "highlight": True}
        for ranking in ("hybrid", "bm25", "hamming")
    ]
    how += [{"hybrid": {"codes": 0.3}}, {"score_threshold": 0.3}, {"facets": [{"field": "label"}]}]
    requests: list[Request] = [
        ("POST", f"{NOTES}/search", {"text": text, **fields}) for text in texts for fields in how
    ]
    requests += [("POST", f"{NOTES}/encode", {"inputs": [{"text": text}]}) for text in texts]
    requests += [("GET", f"{NOTES}/completions?text={text}", None) for text in ("xy", "am", "sh")]
    requests += [("POST", f"{NOTES}/recommend", {"positive": ["own-1"]}), ("GET", NOTES, None)]
    foreign = documents("beta", "other", OTHER_WORDS)
    more = [{**item, "id": f"more-{item['id']}", "text": "amber " * 40} for item in foreign]
    answers = []
    with tenant.http(tenant.admin) as everything, tenant.http(tenant.key) as http:
        for others in ([], foreign, more):
            beta = {"filter": {"field": "tenant", "eq": "beta"}}
            assert everything.post(f"{NOTES}/documents:delete", json=beta).status_code == 200
            if others:
                everything.put(f"{NOTES}/documents", json={"documents": others})
            answers.append([without_counts(send(http, *request).json()) for request in requests])
    for request, *same in zip(requests, *answers, strict=True):
        assert same[0] == same[1] == same[2], request


BETA_IDS = st.sampled_from([f"other-{at}" for at in range(12)])
"""Ids that only the other tenant writes: an id that is taken is refused to everybody else."""
BETA_TEXTS = st.lists(WORDS | st.sampled_from(["amber shared", "amb", "copper " * 30]), max_size=8)
BETA_WRITES: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        lambda ids, texts, year: (
            "PUT",
            f"{NOTES}/documents",
            {
                "documents": [
                    {
                        "id": id_,
                        "text": " ".join(texts),
                        "payload": {
                            "tenant": "beta",
                            "label": texts[0] if texts else "",
                            "n": year,
                        },
                    }
                    for id_ in ids
                ]
            },
        ),
        st.lists(BETA_IDS, min_size=1, max_size=6, unique=True),
        BETA_TEXTS,
        st.integers(0, 9),
    ),
    post("/documents:delete", st.builds(lambda ids: {"ids": ids}, st.lists(BETA_IDS, min_size=1))),
    post(
        "/documents:payload",
        st.builds(
            lambda id_, n: {"updates": [{"ids": [id_], "set": {"year": n, "label": "amber"}}]},
            BETA_IDS,
            st.integers(0, 9),
        ),
    ),
)
READS = st.one_of(
    *(
        REQUESTS[name]
        for name in (
            *("get_collection", "get_document", "get_documents", "scroll_documents"),
            *("count_documents", "count_facets", "search", "search", "search_batch"),
            *("recommend_documents", "complete_query", "encode"),
        )
    )
)


@pytest.mark.fuzz
def test_what_one_tenant_writes_changes_no_answer_of_another(tenant: Tenant) -> None:
    """No answer, score or count of a key depends on what the other key wrote, in either order."""
    others = parse_filter({"field": "tenant", "eq": "beta"})
    beta = create_key(tenant.keys, "beta", "write", collections=["notes"], filter=others)
    statuses: set[int] = set()
    with tenant.http(tenant.key) as own, tenant.http(beta) as other:

        @settings(max_examples=150, suppress_health_check=[*HealthCheck], deadline=None)
        @given(
            st.lists(READS, min_size=1, max_size=5), st.lists(BETA_WRITES, min_size=1, max_size=4)
        )
        def check(reads: list[Request], writes: list[Request]) -> None:
            before = [answer_of(own, request) for request in reads]
            for request in writes:
                answer = send(other, *request)
                statuses.add(answer.status_code)
                assert answer.status_code == 200, answer.text
            assert [answer_of(own, request) for request in reads] == before

        check()
    assert statuses == {200}


def answer_of(http: httpx.Client, request: Request) -> tuple[int, Any]:
    """Return the status of a response and its body, without what all writes count."""
    answer = send(http, *request)
    body = without_counts(answer.json())
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != "request_id"}
    return answer.status_code, body


def test_a_tenant_writes_only_what_matches_its_filter(tenant: Tenant) -> None:
    own = {"text": "amber", "payload": {"tenant": "alpha"}}
    refused: list[tuple[Callable[[Client], object], str]] = [
        (lambda client: client.upsert("notes", [{"id": "n", "text": "amber"}]), "payload"),
        (lambda client: client.upsert("notes", [{"id": "other-1", **own}]), "id"),
        (
            lambda client: client.update_payloads(
                "notes", [{"ids": ["own-1"], "set": {"tenant": "beta"}}]
            ),
            "updates",
        ),
    ]
    with Client(tenant.url, tenant.key) as client:
        for write, field in refused:
            with pytest.raises(ServiceError, match=field) as no:
                write(client)
            assert no.value.status == 422
        assert client.upsert("notes", [{"id": "n", **own}, {"id": "own-2", **own}])["upserted"] == 2
        update = {"filter": {"field": "year", "gte": 0}, "set": {"seen": True}}
        assert client.update_payloads("notes", [update])["matched"] == 5
    with Client(tenant.url, tenant.reader) as client, pytest.raises(ServiceError) as no:
        client.upsert("notes", [{"id": "n", **own}])
    assert no.value.status == 403


def test_a_tenant_never_replaces_what_another_wrote_meanwhile(tmp_path: Path) -> None:
    own = parse_filter({"field": "tenant", "eq": "alpha"})
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("notes", n_bits=16)
        limited = FilteredCollection(collection, own)
        ids = [f"d{at}" for at in range(60)]

        def write(target: Any, tenant: str) -> None:
            for id_ in ids:
                with suppress(InputError):
                    target.upsert([Document(id_, code="0f0f", payload={"tenant": tenant})])

        writers = [(limited, "alpha"), (collection, "beta"), (limited, "alpha")]
        with ThreadPoolExecutor(len(writers)) as pool:
            [*pool.map(lambda writer: write(*writer), writers)]
        stored = {
            document.id: document.payload["tenant"] for document in collection.all_documents()
        }
        assert stored == dict.fromkeys(ids, "beta")
        limited.delete(ids)
        limited.update_payloads([PayloadUpdate(tuple(ids), set={"seen": True})])
        assert {*stored.values()} == {"beta"}
        assert len(collection) == len(ids)


def test_a_tenant_writes_beside_a_write_that_takes_long(tmp_path: Path) -> None:
    """Otherwise writers of tenants, each alone, would keep all others waiting."""
    own = parse_filter({"field": "tenant", "eq": "alpha"})
    with DataFolder(tmp_path, writable=True) as folder:
        folder.create_collection("notes", n_bits=16)
    settings = Settings(data_dir=tmp_path)
    keys = settings.keys_path
    key = create_key(keys, "own", "write", collections=["notes"], filter=own)
    document = {"id": "a", "code": "0f0f", "payload": {"tenant": "alpha"}}
    with running_app(tmp_path, settings) as (app, http):
        http.headers["Authorization"] = f"Bearer {key}"
        gate = app.state.write_gate
        assert gate.enter(wait=False)  # as a write to any collection does
        try:
            for headers in ({}, {"If-None-Match": "*"}):
                body = {"documents": [{**document, "id": f"a{len(headers)}"}]}
                answer = http.put(f"{NOTES}/documents", json=body, headers=headers)
                assert answer.status_code == 200, answer.text
                lines = {"Content-Type": "application/x-ndjson", **headers}
                answer = http.post(
                    f"{NOTES}/documents:bulk",
                    content=json.dumps({**document, "id": f"b{len(headers)}"}),
                    headers=lines,
                )
                assert answer.json()["written"] == 1
            update = {"updates": [{"ids": ["a0"], "set": {"seen": True}}]}
            assert http.post(f"{NOTES}/documents:payload", json=update).json()["updated"] == 1
            assert http.delete(f"{NOTES}/documents/a0").status_code == 204
        finally:
            gate.leave()


OF_TWO_TENANTS: list[dict[str, Any]] = [
    {"tenant": ["alpha", "beta"]},
    {"tenant": ["alpha"]},
    {"tenant": ["beta", {"tenant": "alpha"}, "alpha"]},
]
IN_TWO_PLACES: list[dict[str, Any]] = [
    {"org.id": "alpha", "org": {"id": "beta"}},
    {"org.id": "alpha", "org": {"id": None}},
    {"org": [{"id": "alpha"}, {"id": "beta"}]},
    {"org": [{"id": "alpha"}]},
    {"org": {"id": ["alpha", "beta"]}},
]


@pytest.mark.parametrize("payload", [*OF_TWO_TENANTS, *IN_TWO_PLACES])
def test_no_way_of_writing_gives_a_document_to_two_tenants(
    tenant: Tenant, payload: dict[str, Any]
) -> None:
    field = "tenant" if "tenant" in payload else "org.id"
    name = json.dumps(payload).encode().hex()[-50:]
    keys = {}
    for who in ("alpha", "beta"):
        own = parse_filter({"field": field, "eq": who})
        keys[who] = create_key(
            tenant.keys, f"{who}-{name}", "write", collections=["notes"], filter=own
        )
    plain: dict[str, Any] = {"org": {"id": "alpha"}} if field == "org.id" else {"tenant": "alpha"}
    refused = f"several values, a list or an object in '{field}'"
    with tenant.http(keys["alpha"]) as http, tenant.http(keys["beta"]) as other:
        mine = {"documents": [{"id": "mine", "text": "amber", "payload": plain}]}
        assert http.put(f"{NOTES}/documents", json=mine).status_code == 200
        attack = {"id": "attack", "text": "amber", "payload": payload}
        answer = http.put(f"{NOTES}/documents", json={"documents": [attack]})
        assert answer.status_code == 422
        assert refused in answer.json()["errors"][0]["message"]
        lines = send(http, "POST", f"{NOTES}/documents:bulk", json.dumps(attack)).json()
        assert (lines["written"], lines["failed"]) == (0, 1)
        assert refused in json.dumps(lines)
        for update in ({"set": payload}, {"merge": payload}, {"overwrite": payload}):
            body = {"updates": [{"ids": ["mine"], **update}]}
            if "merge" in update and "None" in str(payload):
                continue  # a merge patch removes what is null
            answer = http.post(f"{NOTES}/documents:payload", json=body)
            assert answer.status_code == 422, (update, answer.text)
            assert refused in answer.text
        assert http.get(f"{NOTES}/documents/mine").json()["payload"] == plain
        for reader in (http, other):
            found = reader.post(f"{NOTES}/search", json={"text": "amber", "limit": 50}).json()
            assert "attack" not in {hit["id"] for hit in found["hits"]}


@pytest.mark.parametrize("payload", OF_TWO_TENANTS)
def test_a_document_that_names_two_tenants_is_of_neither(
    tenant: Tenant, payload: dict[str, Any]
) -> None:
    shared = {"id": "shared", "text": "amber", "payload": payload}
    with tenant.http(tenant.admin) as http:
        answer = http.put(f"{NOTES}/documents", json={"documents": [shared]})
        assert answer.status_code == 200
        found = {"filter": {"field": "tenant", "is_single": False}}
        listed = http.post(f"{NOTES}/documents:scroll", json=found).json()["documents"]
        assert [document["id"] for document in listed] == ["shared"]
    with Client(tenant.url, tenant.key) as client:
        assert client.count("notes") == 6
        assert "shared" not in {hit["id"] for hit in client.search("notes", "amber")["hits"]}
        with pytest.raises(ServiceError) as missing:
            client.get("notes", "shared")
        assert missing.value.status == 404
        assert client.delete_many("notes", ids=["shared"])["deleted"] == 0
        mine = {"text": "amber", "payload": {"tenant": "alpha"}}
        with pytest.raises(ServiceError, match="excludes"):
            client.upsert("notes", [{"id": "shared", **mine}])
        take = {"ids": ["shared"], "overwrite": {"tenant": "alpha"}}
        assert client.update_payloads("notes", [take])["matched"] == 0


def test_keys_with_a_filter_are_made_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Collection.create(tmp_path, "notes", n_bits=16) as collection:
        collection.add(
            [
                {"id": "a", "code": "0f0f", "payload": {"tenant": "alpha"}},
                {"id": "b", "code": "0f0f", "payload": {"tenant": "beta"}},
            ]
        )
    create = ["keys", "create", "--name", "t", "--role", "read", "--data-dir", str(tmp_path)]
    condition = ["--filter", '{"field": "tenant", "eq": "alpha"}']
    assert main([*create, *condition]) != 0
    assert "name the collections" in capsys.readouterr().err
    ids = ["--filter", '{"has_id": ["a"]}', "--collection", "notes"]
    assert main([*create, *ids]) != 0
    assert "payload fields" in capsys.readouterr().err
    with service_with_keys(tmp_path, workers=0) as (url, _):
        assert main([*create, "--collection", "notes", *condition]) == 0
        key = capsys.readouterr().out.strip()
        with Client(url, key) as client:
            assert [hit["id"] for hit in client.search("notes", id="a", limit=9)["hits"]] == ["a"]
    assert main(["keys", "list", "--data-dir", str(tmp_path)]) == 0
    assert '"tenant"' in capsys.readouterr().out
    with pytest.raises(KeysError, match="an admin key is for everything"):
        create_key(
            tmp_path / "keys.json",
            "x",
            "admin",
            collections=["notes"],
            filter=parse_filter({"field": "tenant", "eq": "alpha"}),
        )
