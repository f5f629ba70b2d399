"""The clients of a service, synchronous and asynchronous, with their calls and responses."""
