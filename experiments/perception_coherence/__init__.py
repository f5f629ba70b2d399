"""Perception coherence: students of a teacher, on toy data, texts and images."""
