"""Verbs about nodes and clusters."""
