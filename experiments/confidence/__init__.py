"""Whether the confidence of hits is the share that is right."""
