"""Decide what runs where and why the rest waits: a pure function of a snapshot."""
