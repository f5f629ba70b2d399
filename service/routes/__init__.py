"""Routes: what the service answers at which address."""
