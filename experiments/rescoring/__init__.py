"""Codes of vectors, rescored by the vectors that a collection keeps."""
