"""Points out of other vector stores: what Qdrant, Milvus and txtai write."""
