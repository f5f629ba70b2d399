"""The store of a collection on this machine, an SQLite file."""
