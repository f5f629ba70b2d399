"""Turns texts, vectors and matrices into packed binary codes, without torch."""
