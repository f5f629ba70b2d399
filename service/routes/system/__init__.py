"""Routes about the service itself: health, access, the API description, the console."""
