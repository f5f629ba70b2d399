"""The store of a collection on this machine: SQLite, and what is kept in it."""
