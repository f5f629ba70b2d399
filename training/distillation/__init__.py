"""Learning from a teacher's vectors: teachers, the run, and how far student and teacher agree."""
