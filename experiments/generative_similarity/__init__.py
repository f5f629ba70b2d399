"""Generative similarity: concepts, quadrilaterals, Gaussians and hierarchies."""
