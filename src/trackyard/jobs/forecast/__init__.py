"""Forecasts over a long queue, made by a process of their own beside the server."""
