"""Engines behind core.ports.Engine: each runs attempts somewhere. They import core alone and never touch the store."""
