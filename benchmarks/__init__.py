"""Side-by-side timings, interleaved in one run, reported as ratios."""
