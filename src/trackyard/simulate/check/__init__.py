"""A model checker for the queue: random histories, and what must hold in every one of them."""
