"""Traces, their spans and assessments, and what is evaluated by them."""
