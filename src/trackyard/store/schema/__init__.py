"""The tables and their columns, by the package that uses them. Knows no query.

Importing any module of it makes `metadata` complete.
"""

from trackyard.store.schema import (
    alerts,
    claims,
    data,
    fleet,
    imports,
    jobs,
    leases,
    ray,
    reports,
    sweeps,
    tables,
    traces,
    trials,
    usage,
    webhooks,
)
from trackyard.store.schema.columns import metadata

__all__ = [
    "alerts",
    "claims",
    "data",
    "fleet",
    "imports",
    "jobs",
    "leases",
    "metadata",
    "ray",
    "reports",
    "sweeps",
    "tables",
    "traces",
    "trials",
    "usage",
    "webhooks",
]
