"""Insight: what happened and what it cost, computed from the event log."""
