from __future__ import annotations

import inspect

from hummingbit import AsyncClient, Client


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
