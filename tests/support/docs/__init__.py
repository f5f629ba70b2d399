"""What the documentation shows, held to the program."""
