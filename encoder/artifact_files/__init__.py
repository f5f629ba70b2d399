"""What the files of an artifact hold: the manifest, the tensors, and how they are written."""
