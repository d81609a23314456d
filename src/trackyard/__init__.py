"""Trackyard's public names. Owns what users may import from the top; holds no behaviour."""

__version__ = "0.1.0"

__all__ = ["__version__"]
