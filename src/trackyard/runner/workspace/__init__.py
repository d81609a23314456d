"""The folder, environment, limits and sandbox that a command runs in."""
