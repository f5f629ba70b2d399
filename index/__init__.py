"""Exact Hamming search over packed codes and the durable document store behind it."""
