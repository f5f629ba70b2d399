"""Codes of class, certainty and content: recipe, classifiers, codewords, search, run."""
