"""One module per family of routes. Handlers read the request, call a service and shape the
answer; no SQL here.
"""
