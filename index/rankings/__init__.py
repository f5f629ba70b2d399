"""The orders in which a search can list documents, each in a module of its own."""
