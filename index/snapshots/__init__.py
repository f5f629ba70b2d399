"""A collection and its encoder in one file, written, checked and restored."""
