"""The Riemannian potato ranking loss on covariances."""
