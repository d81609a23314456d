"""Pure domain: ids, errors, clock, events, resources. Standard library only; knows no storage, no network."""
