"""Commands that run the service, and that ask about one."""
