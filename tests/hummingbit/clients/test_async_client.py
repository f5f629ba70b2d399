from __future__ import annotations

import inspect

from hummingbit import AsyncClient, Client
from tests.support.async_clients import ASYNCHRONOUS, async_source


def test_the_asynchronous_client_is_made_from_the_synchronous_one() -> None:
    assert ASYNCHRONOUS.read_text() == async_source(), "run make clients"


def test_both_clients_have_the_same_methods_and_one_is_awaited() -> None:
    methods = {
        name: method
        for name, method in inspect.getmembers(Client, inspect.isfunction)
        if not name.startswith("_")
    }
    for name, method in methods.items():
        other = getattr(AsyncClient, name)
        assert (
            inspect.signature(other).parameters.keys()
            == inspect.signature(method).parameters.keys()
        )
        assert inspect.iscoroutinefunction(other)
    assert len(methods) > 40
