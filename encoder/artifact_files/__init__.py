"""The files of an artifact: the manifest, the tensors, and the contents as written."""
