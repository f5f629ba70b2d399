"""Which requests a reader answers itself, of all there are."""

from __future__ import annotations

from service.app import ROUTERS
from service.http.roles import EVERYBODY, READ
from service.workers.forwarding import LOCAL

# What only the process that writes knows: jobs, labels, and whether the service writes.
OF_THE_WRITER = ("jobs", "evaluations", "evaluate", "maps", "map", "duplicates", "labels", "access")


def routes() -> list[tuple[str, str, object]]:
    return [
        (method, getattr(route, "path"), getattr(route, "openapi_extra", None))  # noqa: B009
        for router in ROUTERS
        for route in router.routes
        for method in getattr(route, "methods", ())
    ]


def is_local(method: str, template: str) -> bool:
    path = template.replace("{name}", "c").replace("{id:any_text}", "a/b").replace("{id}", "x")
    path = path.replace("{file:any_text}", "x").replace("{file}", "x")
    return LOCAL.fullmatch(f"{method} {path}") is not None


def test_a_reader_answers_only_what_reads() -> None:
    local = {(method, path): role for method, path, role in routes() if is_local(method, path)}
    assert len(local) > 15
    assert all(role in (READ, EVERYBODY) for role in local.values()), local
    for _, path in local:
        assert not any(f"/{word}" in path for word in OF_THE_WRITER), path


def test_searches_are_local_and_jobs_are_not() -> None:
    assert is_local("POST", "/v1/collections/{name}/search")
    assert is_local("GET", "/v1/collections/{name}/documents/{id:any_text}")
    assert not is_local("GET", "/v1/collections/{name}/labels")
    assert not is_local("DELETE", "/v1/collections/{name}/documents/{id:any_text}")
    assert not is_local("PUT", "/v1/collections/{name}/documents")
    assert not is_local("GET", "/v1/jobs")
