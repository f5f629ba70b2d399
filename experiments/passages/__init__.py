"""Sentences from the middle of long texts, searched with passages and without."""
