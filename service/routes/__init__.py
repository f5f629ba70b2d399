"""Routes: the endpoints of the service."""
