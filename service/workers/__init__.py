"""One service in several processes: one that writes, and readers that follow it, on one port."""
