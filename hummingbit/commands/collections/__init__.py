"""Commands about collections: documents, searches, aliases and snapshots."""
