"""Pure domain: ids, errors, clock, events, resources. Standard library only; it knows neither
storage nor network.
"""
