"""Calls from this server to addresses that users name, which cannot be turned against the inside.

Owns which addresses may be called, the one HTTP request and its limits, and the pace of retries.
Knows neither what is sent nor any table: webhooks and alerts bring their own.
"""
