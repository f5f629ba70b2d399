"""Collections on a Milvus server."""
