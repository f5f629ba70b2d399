"""Soft labels: probabilities over classes, estimated for unlabelled documents."""
