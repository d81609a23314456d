"""arrays that arrive in parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0023'
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this migration."""
    op.create_table('arriving_arrays',
    sa.Column('array_id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('team_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('plan', sa.Text(), nullable=False),
    sa.Column('done', sa.BigInteger(), nullable=False),
    sa.Column('written_ms', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['team_id'], ['teams.id'], name=op.f('fk_arriving_arrays_team_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('array_id', name=op.f('pk_arriving_arrays'))
    )
