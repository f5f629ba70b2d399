"""Request bodies: read, parsed and validated in slices."""
