"""Terminals and apps of an attempt, and the tunnel that leads to them."""
