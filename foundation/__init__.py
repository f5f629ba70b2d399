"""What every other folder may use: errors, files that survive a crash, and long work in slices."""
