"""Timings of our code beside alternatives: interleaved in one run and reported as ratios."""
