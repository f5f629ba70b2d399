"""hummingbit: learn, search and judge short binary codes."""
