"""hummingbit in other frameworks, one module for each.

A module needs its framework, which the extra ``hummingbit[integrations]`` installs.
"""
