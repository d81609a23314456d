"""Verbs that import and export."""
