"""Metrics: their names, and their values on ranked lists and on clusters."""
