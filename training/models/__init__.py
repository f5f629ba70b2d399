"""Networks, their batches, and their export as encoders."""
