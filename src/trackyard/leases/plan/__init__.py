"""The pure half of leases: calendar, choice of nodes, fairness, and what a request comes to."""
