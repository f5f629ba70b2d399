"""The JSON of collections: documents, aliases, snapshots and codes."""
