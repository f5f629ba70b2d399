"""What to label next: how many labels are saved by choosing them."""
