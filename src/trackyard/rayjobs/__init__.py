"""Ray's Jobs API on top of the queue: its words, records and views."""
