"""Read models over the event log: what happened and what it cost. Changes no job and no run."""
