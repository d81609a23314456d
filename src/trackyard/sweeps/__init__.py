"""Sweeps: searches over parameters whose trials are jobs of one array."""
