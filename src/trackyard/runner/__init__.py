"""The wrapper around the user's command on the node.

Standard library only; imports nothing else of trackyard, and runs on Python 3.9 and newer.
"""
