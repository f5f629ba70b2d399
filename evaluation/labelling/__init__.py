"""Which documents to label next, how far people agree, and what another label should gain."""
