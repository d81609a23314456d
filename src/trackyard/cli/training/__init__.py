"""Verbs about plans, fine-tuning and sweeps."""
