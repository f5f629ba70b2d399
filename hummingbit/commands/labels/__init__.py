"""Commands for labels and judgements."""
