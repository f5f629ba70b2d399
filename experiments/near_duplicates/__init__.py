"""Known near-duplicates, found by codes and by texts."""
