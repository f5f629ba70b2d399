"""Engines that the compiled kernel searches, the fastest where it could be built."""
