"""Slow and simple twins that tests hold the code to."""
