"""hummingbit inside frameworks that people already use, one module each.

Each needs its framework, which the extra ``hummingbit[integrations]`` installs.
"""
