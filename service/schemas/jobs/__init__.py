"""The JSON of jobs, and of what they make: evaluations, maps, near-duplicates."""
