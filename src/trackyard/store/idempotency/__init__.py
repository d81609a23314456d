"""Retries of create calls: the rule, and calls that are not answered yet."""
