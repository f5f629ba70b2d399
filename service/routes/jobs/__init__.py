"""Routes of jobs, and of the evaluations and maps that jobs make."""
