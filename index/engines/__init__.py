"""Exact search over packed codes, each way of it in a module of its own."""
