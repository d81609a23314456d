"""Fakes that ship, for tests of Trackyard and of what is built on it. Imported by tests alone."""
