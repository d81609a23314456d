"""Replay traces of real clusters through the scheduler. Imports scheduling and core alone."""
