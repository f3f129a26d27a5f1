"""Datasets, predictions and trajectories in the formats of others, and back."""
