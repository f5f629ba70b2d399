"""The top-level folders of the checkout."""

INSTALLED = "corpus encoder evaluation foundation hummingbit index service training".split()
"""Those that an installation has."""
