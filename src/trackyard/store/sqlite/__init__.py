"""What only SQLite needs: journal, checkpoints of its log, backup, reserved space, changes."""
