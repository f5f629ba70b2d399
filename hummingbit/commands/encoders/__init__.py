"""Commands that make encoders or list them."""
