"""The logbook that writes itself: entries from events, curves and people's notes.

Everything but `loader` and `notebook` is pure; those two read and write the database.
"""
