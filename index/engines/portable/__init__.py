"""Engines of FAISS and numpy, for installations without the compiled kernel."""
