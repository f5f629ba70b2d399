"""Collections on a PostgreSQL server, which several services read and write at once."""
