"""Readers of what other vector stores write: Qdrant, Milvus and txtai."""
