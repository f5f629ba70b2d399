"""The parts of a data folder: names, aliases, encoders, drafts, folders that appear whole."""
