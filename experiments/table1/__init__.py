"""SSB-VAE's Table I whole, from saved encoders."""
