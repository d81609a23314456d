"""Verbs about teams, users, tokens, secrets, budgets."""
