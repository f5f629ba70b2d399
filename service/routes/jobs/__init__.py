"""Routes of jobs, and of evaluations, maps and near-duplicates, which are results of jobs."""
