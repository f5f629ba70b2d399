"""What to label next, how far people agree, and what a next label is expected to gain."""
