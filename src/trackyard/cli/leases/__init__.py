"""Verbs about leases."""
