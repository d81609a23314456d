"""Moving over from other trackers and back: reads and writes their formats, talks to the server by
its API. Imports neither server code nor the packages of those trackers.
"""
