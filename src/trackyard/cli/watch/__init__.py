"""Verbs about events and alerts."""
