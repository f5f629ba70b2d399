"""The clients' calls, responses and methods for aliases, snapshots and jobs."""
