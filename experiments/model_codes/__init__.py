"""Codes of a language model on judged queries, beside its cosines and BM25."""
