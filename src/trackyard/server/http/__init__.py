"""Requests and replies: bodies, streams, events, sockets, files, and the pace of callers."""
