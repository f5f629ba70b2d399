"""What the encoder computes in C where pip can build it."""
