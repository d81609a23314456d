"""What the server tells of itself: figures, log lines, the watchdog of its event loop."""
