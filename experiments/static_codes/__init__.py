"""Codes of the encoder that ships, and of those trained from it, on judged queries."""
