"""What the server takes and checks when it starts, and how it ends."""
