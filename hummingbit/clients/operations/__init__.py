"""What the clients do with aliases, snapshots and jobs: calls, responses and methods."""
