"""HTTP: the protocol, bodies, keys, limits and problems."""
