"""Slow and simple reference implementations that tests compare the code with."""
