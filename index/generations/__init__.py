"""The generations that searches see: published with each write, compacted beside writes."""
