"""Significance: whether a difference is more than chance."""
