"""What a data folder is made of: names, aliases, encoders, drafts, folders that appear whole."""
