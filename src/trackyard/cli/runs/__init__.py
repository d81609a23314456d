"""Verbs about runs, experiments and models."""
