"""The native API of jobs, attempts, queues, sweeps and interactive work."""
