"""Commands that measure: collections, encoders, shares of the labels, papers."""
