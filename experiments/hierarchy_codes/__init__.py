"""Codes that keep a hierarchy of labels."""
