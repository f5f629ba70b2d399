"""What the clients do with labels and judgements: calls, responses and methods."""
