"""Learning from judged queries, with the codes of a language model."""
