"""Similarities of pairs of documents, from labels, files of pairs or generative models."""
