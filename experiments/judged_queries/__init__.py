"""Real queries with relevance judgements: codes beside BM25, TF-IDF and hybrids."""
