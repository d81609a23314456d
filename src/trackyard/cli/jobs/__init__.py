"""Verbs about jobs in the queue."""
