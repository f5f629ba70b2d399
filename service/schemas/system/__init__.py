"""The JSON of the service itself: health and access."""
