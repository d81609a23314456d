"""Verbs that start work."""
