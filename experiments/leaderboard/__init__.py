"""Text hashing methods compared on the same documents: ``hummingbit leaderboard``."""
