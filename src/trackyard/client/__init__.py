"""What runs on the user's side: the HTTP client, packaging of working folders. Imports no
server code.
"""
