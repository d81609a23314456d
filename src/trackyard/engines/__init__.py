"""Engines behind core.ports.Engine: each runs attempts somewhere.

They import core alone, report through the port and never touch the store.
"""
