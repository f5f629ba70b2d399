"""What people say of a collection's documents: labels, and judgements of answers to queries."""
