"""What every other folder may use: errors, files that survive a crash, long work and its end."""
