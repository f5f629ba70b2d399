"""Snapshots: a collection and its encoder in one file."""
