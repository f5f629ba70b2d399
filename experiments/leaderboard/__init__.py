"""Methods of text hashing beside each other on the same documents; ``hummingbit leaderboard``."""
