"""The clients' calls, responses and methods for labels and judgements."""
