"""The rankings of documents, each in a module of its own."""
