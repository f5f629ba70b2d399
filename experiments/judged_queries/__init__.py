"""Real queries with judged answers: codes beside BM25, TF-IDF and hybrids of both."""
