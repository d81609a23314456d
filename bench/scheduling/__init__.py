"""Benches of the scheduler on published traces; each takes the folder of traces."""
