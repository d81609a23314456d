"""The queue as it is stored and changed: jobs, attempts, logs, queues, shares."""
