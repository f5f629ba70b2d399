"""What every other folder may use: the family of errors, and files that last through a crash."""
