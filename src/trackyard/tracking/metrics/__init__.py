"""Metric points: ingest, log, blocks, history, curves."""
