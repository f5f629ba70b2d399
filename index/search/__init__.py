"""A search: its options, the rows of a page, the hits, and the cursor of the next page."""
