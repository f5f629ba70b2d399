"""Engines of FAISS and numpy, which search where there is no compiled kernel."""
