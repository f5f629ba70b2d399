"""Networks, the batches they are fed, and their export as encoders."""
