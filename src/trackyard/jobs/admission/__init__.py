"""The loop that loads, decides and applies: one elected scheduler over one engine."""
