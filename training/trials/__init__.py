"""Choices of settings by trials on held-out clusters of documents."""
