"""Registered models and their versions, and the models that runs log."""
