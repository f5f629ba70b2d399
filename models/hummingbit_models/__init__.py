"""Encoders that ship, for hummingbit: each a folder beside this file.

hummingbit finds this package by its name. ``english`` encodes English texts.
"""
