"""What people say about documents: labels, and judgements of their relevance to queries."""
