"""Verbs about queues and policies."""
