"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this migration."""
    op.create_table('artifacts',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('team_id', sa.BigInteger(), nullable=False),
    sa.Column('experiment_id', sa.BigInteger(), nullable=False),
    sa.Column('owner', sa.Text(), nullable=False),
    sa.Column('path', sa.Text(), nullable=False),
    sa.Column('blob', sa.Text(), nullable=False),
    sa.Column('size', sa.BigInteger(), nullable=False),
    sa.Column('sha256', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_artifacts')),
    sa.UniqueConstraint('owner', 'path', name=op.f('uq_artifacts_owner_path'))
    )
    op.create_table('events',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('time_ms', sa.BigInteger(), nullable=False),
    sa.Column('team_id', sa.BigInteger(), nullable=True),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('subject_id', sa.Text(), nullable=False),
    sa.Column('data', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_events')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_events_subject_subject_id_id'), 'events', ['subject', 'subject_id', 'id'], unique=False)
    op.create_index(op.f('ix_events_team_id_id'), 'events', ['team_id', 'id'], unique=False)
    op.create_table('metric_blocks',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('run_id', sa.BigInteger(), nullable=False),
    sa.Column('name_id', sa.BigInteger(), nullable=False),
    sa.Column('attempt', sa.BigInteger(), nullable=False),
    sa.Column('rank', sa.BigInteger(), nullable=False),
    sa.Column('points', sa.BigInteger(), nullable=False),
    sa.Column('first_step', sa.BigInteger(), nullable=False),
    sa.Column('last_step', sa.BigInteger(), nullable=False),
    sa.Column('first_ms', sa.BigInteger(), nullable=False),
    sa.Column('last_ms', sa.BigInteger(), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.Column('summary', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_metric_blocks')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_metric_blocks_run_id_name_id'), 'metric_blocks', ['run_id', 'name_id'], unique=False)
    op.create_table('metric_log',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('run_id', sa.BigInteger(), nullable=False),
    sa.Column('attempt', sa.BigInteger(), nullable=False),
    sa.Column('rank', sa.BigInteger(), nullable=False),
    sa.Column('points', sa.BigInteger(), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_metric_log')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_metric_log_run_id'), 'metric_log', ['run_id'], unique=False)
    op.create_table('names',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_names')),
    sa.UniqueConstraint('name', name=op.f('uq_names_name'))
    )
    op.create_table('replies',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('result', sa.Text(), nullable=False),
    sa.Column('peer', sa.Text(), nullable=False),
    sa.Column('boot', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_replies'))
    )
    op.create_index(op.f('ix_replies_created_ms'), 'replies', ['created_ms'], unique=False)
    op.create_table('settings',
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('key', name=op.f('pk_settings'))
    )
    op.create_table('teams',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('default_experiment_id', sa.BigInteger(), nullable=True),
    sa.Column('settings', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_teams')),
    sa.UniqueConstraint('name', name=op.f('uq_teams_name'))
    )
    op.create_table('uploads',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('team_id', sa.BigInteger(), nullable=False),
    sa.Column('experiment_id', sa.BigInteger(), nullable=False),
    sa.Column('owner', sa.Text(), nullable=False),
    sa.Column('path', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_uploads'))
    )
    op.create_table('users',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('is_admin', sa.BigInteger(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('disabled_ms', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_users')),
    sa.UniqueConstraint('name', name=op.f('uq_users_name'))
    )
    op.create_table('experiments',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=False, nullable=False),
    sa.Column('team_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('artifact_location', sa.Text(), nullable=False),
    sa.Column('lifecycle', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('updated_ms', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['team_id'], ['teams.id'], name=op.f('fk_experiments_team_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_experiments')),
    sa.UniqueConstraint('team_id', 'name', name=op.f('uq_experiments_team_id_name'))
    )
    op.create_table('members',
    sa.Column('team_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('user_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['team_id'], ['teams.id'], name=op.f('fk_members_team_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('fk_members_user_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('team_id', 'user_id', name=op.f('pk_members'))
    )
    op.create_index(op.f('ix_members_user_id'), 'members', ['user_id'], unique=False)
    op.create_table('models',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('team_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('description', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('updated_ms', sa.BigInteger(), nullable=False),
    sa.Column('last_version', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['team_id'], ['teams.id'], name=op.f('fk_models_team_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_models')),
    sa.UniqueConstraint('team_id', 'name', name=op.f('uq_models_team_id_name'))
    )
    op.create_table('sessions',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('user_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('csrf', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('seen_ms', sa.BigInteger(), nullable=False),
    sa.Column('expires_ms', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('fk_sessions_user_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_sessions'))
    )
    op.create_table('signins',
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('user_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('expires_ms', sa.BigInteger(), nullable=False),
    sa.Column('used_ms', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('fk_signins_user_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_signins'))
    )
    op.create_table('tokens',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('user_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('team_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=True),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('expires_ms', sa.BigInteger(), nullable=True),
    sa.Column('used_ms', sa.BigInteger(), nullable=True),
    sa.Column('revoked_ms', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['team_id'], ['teams.id'], name=op.f('fk_tokens_team_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('fk_tokens_user_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_tokens')),
    sa.UniqueConstraint('digest', name=op.f('uq_tokens_digest'))
    )
    op.create_table('datasets',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('experiment_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('source_type', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('schema', sa.Text(), nullable=True),
    sa.Column('profile', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('fk_datasets_experiment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_datasets')),
    sa.UniqueConstraint('experiment_id', 'name', 'digest', name=op.f('uq_datasets_experiment_id_name_digest'))
    )
    op.create_table('experiment_tags',
    sa.Column('experiment_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('fk_experiment_tags_experiment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('experiment_id', 'key', name=op.f('pk_experiment_tags'))
    )
    op.create_table('logged_models',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('team_id', sa.BigInteger(), nullable=False),
    sa.Column('experiment_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('artifact_uri', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('status_message', sa.Text(), nullable=False),
    sa.Column('model_type', sa.Text(), nullable=False),
    sa.Column('source_run', sa.Text(), nullable=False),
    sa.Column('lifecycle', sa.Text(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('updated_ms', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('fk_logged_models_experiment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_logged_models'))
    )
    op.create_index(op.f('ix_logged_models_experiment_id_created_ms'), 'logged_models', ['experiment_id', 'created_ms'], unique=False)
    op.create_index(op.f('ix_logged_models_source_run'), 'logged_models', ['source_run'], unique=False)
    op.create_table('model_aliases',
    sa.Column('model_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('alias', sa.Text(), nullable=False),
    sa.Column('version', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['model_id'], ['models.id'], name=op.f('fk_model_aliases_model_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('model_id', 'alias', name=op.f('pk_model_aliases'))
    )
    op.create_table('model_tags',
    sa.Column('model_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['model_id'], ['models.id'], name=op.f('fk_model_tags_model_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('model_id', 'key', name=op.f('pk_model_tags'))
    )
    op.create_table('model_versions',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('model_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('version', sa.BigInteger(), nullable=False),
    sa.Column('created_ms', sa.BigInteger(), nullable=False),
    sa.Column('updated_ms', sa.BigInteger(), nullable=False),
    sa.Column('description', sa.Text(), nullable=False),
    sa.Column('user_name', sa.Text(), nullable=False),
    sa.Column('stage', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('run_uuid', sa.Text(), nullable=False),
    sa.Column('run_link', sa.Text(), nullable=False),
    sa.Column('logged_model_id', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('status_message', sa.Text(), nullable=False),
    sa.Column('storage_location', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['model_id'], ['models.id'], name=op.f('fk_model_versions_model_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_model_versions')),
    sa.UniqueConstraint('model_id', 'version', name=op.f('uq_model_versions_model_id_version'))
    )
    op.create_index(op.f('ix_model_versions_logged_model_id'), 'model_versions', ['logged_model_id'], unique=False)
    op.create_index(op.f('ix_model_versions_run_uuid'), 'model_versions', ['run_uuid'], unique=False)
    op.create_table('runs',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('uuid', sa.Text(), nullable=False),
    sa.Column('experiment_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('team_id', sa.BigInteger(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('user_name', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('start_ms', sa.BigInteger(), nullable=True),
    sa.Column('end_ms', sa.BigInteger(), nullable=True),
    sa.Column('lifecycle', sa.Text(), nullable=False),
    sa.Column('deleted_ms', sa.BigInteger(), nullable=True),
    sa.Column('artifact_uri', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('fk_runs_experiment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_runs')),
    sa.UniqueConstraint('uuid', name=op.f('uq_runs_uuid'))
    )
    op.create_index(op.f('ix_runs_experiment_id_start_ms'), 'runs', ['experiment_id', 'start_ms'], unique=False)
    op.create_index(op.f('ix_runs_team_id_start_ms'), 'runs', ['team_id', 'start_ms'], unique=False)
    op.create_table('logged_model_metrics',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('model_id', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('time_ms', sa.BigInteger(), nullable=False),
    sa.Column('step', sa.BigInteger(), nullable=False),
    sa.Column('value', sa.Float(precision=53), nullable=True),
    sa.Column('run_uuid', sa.Text(), nullable=False),
    sa.Column('dataset_name', sa.Text(), nullable=True),
    sa.Column('dataset_digest', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['model_id'], ['logged_models.id'], name=op.f('fk_logged_model_metrics_model_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_logged_model_metrics')),
    sa.UniqueConstraint('model_id', 'key', 'time_ms', 'step', 'run_uuid', name=op.f('uq_logged_model_metrics_model_id_key_time_ms_step_run_uuid'))
    )
    op.create_table('logged_model_params',
    sa.Column('model_id', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['model_id'], ['logged_models.id'], name=op.f('fk_logged_model_params_model_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('model_id', 'key', name=op.f('pk_logged_model_params'))
    )
    op.create_table('logged_model_tags',
    sa.Column('model_id', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['model_id'], ['logged_models.id'], name=op.f('fk_logged_model_tags_model_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('model_id', 'key', name=op.f('pk_logged_model_tags'))
    )
    op.create_table('metric_latest',
    sa.Column('run_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name_id', sa.BigInteger(), nullable=False),
    sa.Column('step', sa.BigInteger(), nullable=False),
    sa.Column('time_ms', sa.BigInteger(), nullable=False),
    sa.Column('value', sa.Float(precision=53), nullable=True),
    sa.Column('least', sa.Float(precision=53), nullable=True),
    sa.Column('most', sa.Float(precision=53), nullable=True),
    sa.Column('wire', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_metric_latest_run_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'name_id', name=op.f('pk_metric_latest')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_metric_latest_name_id_value_run_id'), 'metric_latest', ['name_id', 'value', 'run_id'], unique=False)
    op.create_table('model_version_tags',
    sa.Column('version_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['version_id'], ['model_versions.id'], name=op.f('fk_model_version_tags_version_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('version_id', 'key', name=op.f('pk_model_version_tags'))
    )
    op.create_table('params',
    sa.Column('run_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name_id', sa.BigInteger(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_params_run_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'name_id', name=op.f('pk_params')),
    sqlite_with_rowid=False
    )
    op.create_index('ix_params_short_values', 'params', ['name_id', 'run_id', 'value'], unique=False, sqlite_where=sa.text('length(value) <= 200'), postgresql_where=sa.text('length(value) <= 200'))
    op.create_table('rollbacks',
    sa.Column('run_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('attempt', sa.BigInteger(), nullable=False),
    sa.Column('step', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_rollbacks_run_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'attempt', name=op.f('pk_rollbacks'))
    )
    op.create_table('run_datasets',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('run_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('dataset_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('tags', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['dataset_id'], ['datasets.id'], name=op.f('fk_run_datasets_dataset_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_run_datasets_run_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_run_datasets')),
    sa.UniqueConstraint('run_id', 'dataset_id', name=op.f('uq_run_datasets_run_id_dataset_id'))
    )
    op.create_table('run_models',
    sa.Column('run_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('model_id', sa.Text(), nullable=False),
    sa.Column('direction', sa.Text(), nullable=False),
    sa.Column('step', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_run_models_run_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'direction', 'model_id', name=op.f('pk_run_models'))
    )
    op.create_index(op.f('ix_run_models_model_id'), 'run_models', ['model_id'], unique=False)
    op.create_table('tags',
    sa.Column('run_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name_id', sa.BigInteger(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_tags_run_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('run_id', 'name_id', name=op.f('pk_tags')),
    sqlite_with_rowid=False
    )
    op.create_index('ix_tags_short_values', 'tags', ['name_id', 'run_id', 'value'], unique=False, sqlite_where=sa.text('length(value) <= 200'), postgresql_where=sa.text('length(value) <= 200'))
