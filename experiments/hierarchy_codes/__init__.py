"""Codes that preserve a hierarchy of labels."""
