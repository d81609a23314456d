"""Leases: nodes promised to people for a time. Calendar, conflicts, rules and life cycle."""
