"""Benchmarks: the product beside its peers in one run. Nothing here runs in the tests."""
