"""Text or vectors to packed binary codes, from an artifact on disk, without torch."""
