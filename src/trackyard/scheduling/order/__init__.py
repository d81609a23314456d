"""Who goes first: lines of alike jobs, and the key by which their heads compare."""
