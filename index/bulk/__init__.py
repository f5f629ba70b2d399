"""Operations on whole collections: ingestion, transfer, reindexing, near-duplicates."""
