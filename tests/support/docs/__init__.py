"""Checks of the documentation's examples against the program."""
