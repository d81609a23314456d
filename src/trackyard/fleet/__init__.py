"""The fleet: nodes, their health, and what keeps work off them."""
