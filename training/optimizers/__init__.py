"""Adam over all rows, and over the rows of a batch."""
