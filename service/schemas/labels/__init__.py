"""The JSON of labels, judgements and retraining."""
