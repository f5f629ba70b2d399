"""One file per table or figure of a paper; ``hummingbit reproduce`` runs them."""
