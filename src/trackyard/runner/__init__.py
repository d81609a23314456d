"""The wrapper around the user's command on the node. Standard library only; imports nothing else of trackyard."""
