"""What training computes in C where pip can build it."""
