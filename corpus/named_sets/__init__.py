"""Readers of the files of named data sets."""
