"""Documents in: the record, its readers, named data sets and the docstring corpus."""
