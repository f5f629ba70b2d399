"""Ties: expectations and extremes of metrics over the orders of documents at equal distance."""
