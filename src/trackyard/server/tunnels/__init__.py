"""Runners' tunnels, and the pages of apps that are reached through them."""
