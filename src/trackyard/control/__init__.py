"""The loops that act on the queue: one elected scheduler over one engine."""
