"""The store: one SQLite file for each collection, the only source of truth."""
