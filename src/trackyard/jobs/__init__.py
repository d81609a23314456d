"""Jobs: submission, packages, attempts, logs, and the admission loop that runs them."""
