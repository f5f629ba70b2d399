"""The engines of the compiled kernel, which are the fastest."""
