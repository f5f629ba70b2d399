"""Routes of labels and judgements, and of the retraining that uses them."""
