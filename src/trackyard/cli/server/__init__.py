"""Verbs that start and keep a server."""
