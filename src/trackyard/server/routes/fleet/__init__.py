"""The native API of nodes, leases, load and usage."""
