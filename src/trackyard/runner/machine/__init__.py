"""Facts about the machine: samples, GPUs, inventory. Knows nothing of attempts or the server."""
