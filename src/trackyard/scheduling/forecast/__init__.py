"""How long jobs run, and when waiting ones will start. Pure."""
