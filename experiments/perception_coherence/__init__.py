"""Perception coherence: students of a teacher, on toys, texts and images."""
