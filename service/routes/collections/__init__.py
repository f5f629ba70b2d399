"""Routes of collections: their documents, aliases, snapshots, codes and maintenance."""
