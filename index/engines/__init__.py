"""Exact search over packed codes: the contract, its oracle, and the choice of an engine."""
