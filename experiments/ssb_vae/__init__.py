"""Semi-supervised hashing, Ñanculef et al. (2020): Tables I and II, tuning and ablation."""
