"""What a source does not say of itself: its encoding and format, and the meaning of its fields."""
