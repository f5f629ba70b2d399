"""Reports on the evaluation of a collection: created, compared, gated and written."""
