"""Jobs: work that goes on after the request was answered."""
