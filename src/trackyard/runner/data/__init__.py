"""Data sets on the node: cached, fetched, held while a command runs."""
