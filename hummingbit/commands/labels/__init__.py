"""Commands about labels and judgements."""
