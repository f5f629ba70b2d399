"""Routes about the service itself: health, access, the API's description, the console."""
