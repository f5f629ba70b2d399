"""Documents written from JSON lines, by a request or by a job."""
