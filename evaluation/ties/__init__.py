"""Ties: what metrics expect over the order of documents at one distance, and its extremes."""
