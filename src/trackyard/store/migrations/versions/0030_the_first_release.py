"""The schema of the first release, which `store.schema` states.

An empty database gets today's schema at once, so nothing runs this revision: upgrades of a
database that holds it begin after it. Its statements are in tests/data/schema.
"""

from __future__ import annotations

from trackyard.core.errors import SetupError

revision = "0030"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Refuse: `store.migrate` makes the schema of an empty database."""
    raise SetupError("an empty database is prepared by trackyard.store.migrate.prepare")
