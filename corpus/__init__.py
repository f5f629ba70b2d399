"""Documents: the record, the readers of files, named data sets and the docstring corpus."""
