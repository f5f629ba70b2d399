"""Retrieval metrics, ties, baselines and the evaluation of a collection."""
