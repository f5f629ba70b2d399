"""Whether an idea of the papers gains something for users, on data that did not choose it."""
