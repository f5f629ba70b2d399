"""Jobs: work that continues after the response to the request."""
