"""Lexical search: an inverted index of a collection's texts, ranked by BM25."""
