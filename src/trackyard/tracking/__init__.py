"""Experiments, runs, metric ingest and roll-ups, the search language. Knows no HTTP and no
artifacts.
"""
