"""Queues, teams and their limits, and what has been used of them."""
