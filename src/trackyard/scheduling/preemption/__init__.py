"""Who must stop for whom, how long they would run on, and the proof that it gains. Pure."""
