"""The JSON of jobs and their results: evaluations, maps, near-duplicates."""
