"""The runner inside a Ray cluster."""
