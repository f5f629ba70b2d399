"""What texts are made of: characters and scripts, and the title and the first sentence."""
