"""What comes from other trackers: ids, times, users and states are kept as they were there."""
