"""Schemas: the JSON of requests and responses."""
