"""Experiments, a folder for each paper or study; ``hummingbit reproduce`` runs them."""
