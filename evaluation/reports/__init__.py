"""Reports: the evaluation of a collection gathered, compared, gated and written."""
