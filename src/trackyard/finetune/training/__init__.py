"""The training loop and its parts. Everything here imports torch; nothing outside does."""
