"""Distillation: teachers, the run, and how far student and teacher agree."""
