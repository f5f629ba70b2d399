"""The generations that searches see: each write publishes one; compaction runs beside writes."""
