"""Codes that say class, certainty and content: recipe, classifiers, codewords, search, run."""
