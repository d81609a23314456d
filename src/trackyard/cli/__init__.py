"""The `yard` command: one file per verb. Talks to a server over HTTP; imports no server code
but to start one.
"""
