"""Ray's Jobs and state protocol."""
