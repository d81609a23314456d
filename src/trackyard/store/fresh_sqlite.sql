-- Written by tools/fresh_schema.py; do not edit.
CREATE TABLE alert_cursor (
	name TEXT NOT NULL,
	after_event BIGINT NOT NULL,
	CONSTRAINT pk_alert_cursor PRIMARY KEY (name)
);
CREATE TABLE artifacts (
	id INTEGER NOT NULL,
	team_id BIGINT NOT NULL,
	experiment_id BIGINT NOT NULL,
	owner TEXT NOT NULL,
	path TEXT NOT NULL,
	blob TEXT NOT NULL,
	size BIGINT NOT NULL,
	sha256 TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_artifacts PRIMARY KEY (id),
	CONSTRAINT uq_artifacts_owner_path UNIQUE (owner, path)
);
CREATE TABLE child_runs (
	run_uuid TEXT NOT NULL,
	root_uuid TEXT NOT NULL,
	CONSTRAINT pk_child_runs PRIMARY KEY (run_uuid)
);
CREATE INDEX ix_child_runs_root_uuid ON child_runs (root_uuid);
CREATE TABLE closed_months (
	month TEXT NOT NULL,
	closed_ms BIGINT NOT NULL,
	actor TEXT NOT NULL,
	data BLOB NOT NULL,
	CONSTRAINT pk_closed_months PRIMARY KEY (month)
);
CREATE TABLE events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	time_ms BIGINT NOT NULL,
	team_id BIGINT,
	actor TEXT NOT NULL,
	kind TEXT NOT NULL,
	subject TEXT NOT NULL,
	subject_id TEXT NOT NULL,
	data TEXT NOT NULL
);
CREATE INDEX ix_events_stalls ON events (time_ms) WHERE kind IN ('job.stalled', 'job.recovered');
CREATE INDEX ix_events_subject_subject_id_id ON events (subject, subject_id, id);
CREATE INDEX ix_events_team_id_id ON events (team_id, id);
CREATE TABLE job_specs (
	id INTEGER NOT NULL,
	spec TEXT NOT NULL,
	CONSTRAINT pk_job_specs PRIMARY KEY (id)
);
CREATE TABLE journal (
	id INTEGER NOT NULL,
	data BLOB NOT NULL,
	CONSTRAINT pk_journal PRIMARY KEY (id)
);
CREATE TABLE leaders (
	role TEXT NOT NULL,
	holder TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	since_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	CONSTRAINT pk_leaders PRIMARY KEY (role)
);
CREATE TABLE lost_answers (
	digest TEXT NOT NULL,
	result TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_lost_answers PRIMARY KEY (digest, result)
);
CREATE INDEX ix_lost_answers_created_ms ON lost_answers (created_ms);
CREATE TABLE metric_blocks (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	run_id BIGINT NOT NULL,
	name_id BIGINT NOT NULL,
	attempt BIGINT NOT NULL,
	rank BIGINT NOT NULL,
	points BIGINT NOT NULL,
	first_step BIGINT NOT NULL,
	last_step BIGINT NOT NULL,
	first_ms BIGINT NOT NULL,
	last_ms BIGINT NOT NULL,
	data BLOB NOT NULL,
	summary BLOB NOT NULL
);
CREATE INDEX ix_metric_blocks_run_id_name_id ON metric_blocks (run_id, name_id);
CREATE TABLE metric_log (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	run_id BIGINT NOT NULL,
	attempt BIGINT NOT NULL,
	rank BIGINT NOT NULL,
	points BIGINT NOT NULL,
	data BLOB NOT NULL
);
CREATE INDEX ix_metric_log_run_id ON metric_log (run_id);
CREATE TABLE names (
	id INTEGER NOT NULL,
	name TEXT NOT NULL,
	CONSTRAINT pk_names PRIMARY KEY (id),
	CONSTRAINT uq_names_name UNIQUE (name)
);
CREATE TABLE node_checks (
	node_id TEXT NOT NULL,
	name TEXT NOT NULL,
	verdict TEXT NOT NULL,
	sentence TEXT NOT NULL,
	number FLOAT,
	unit TEXT NOT NULL,
	source TEXT NOT NULL,
	at_ms BIGINT NOT NULL,
	since_ms BIGINT NOT NULL,
	failed BIGINT NOT NULL,
	passed BIGINT NOT NULL,
	accepted FLOAT NOT NULL,
	CONSTRAINT pk_node_checks PRIMARY KEY (node_id, name)
);
CREATE TABLE node_load (
	node TEXT NOT NULL,
	what TEXT NOT NULL,
	at_ms BIGINT NOT NULL,
	width_ms BIGINT NOT NULL,
	total FLOAT NOT NULL,
	count BIGINT NOT NULL,
	most FLOAT NOT NULL,
	CONSTRAINT pk_node_load PRIMARY KEY (node, what, at_ms, width_ms)
);
CREATE INDEX ix_node_load_width_ms_at_ms ON node_load (width_ms, at_ms);
CREATE TABLE node_verdicts (
	id INTEGER NOT NULL,
	node_id TEXT NOT NULL,
	name TEXT NOT NULL,
	verdict TEXT NOT NULL,
	sentence TEXT NOT NULL,
	number FLOAT,
	unit TEXT NOT NULL,
	source TEXT NOT NULL,
	attempt_id TEXT NOT NULL,
	at_ms BIGINT NOT NULL,
	job_id TEXT DEFAULT '' NOT NULL,
	team_id BIGINT,
	CONSTRAINT pk_node_verdicts PRIMARY KEY (id)
);
CREATE INDEX ix_node_verdicts_at_ms ON node_verdicts (at_ms);
CREATE INDEX ix_node_verdicts_node_id_id ON node_verdicts (node_id, id);
CREATE TABLE nodes (
	id TEXT NOT NULL,
	engine TEXT NOT NULL,
	engine_state TEXT NOT NULL,
	state TEXT NOT NULL,
	note TEXT NOT NULL,
	actor TEXT NOT NULL,
	report TEXT NOT NULL,
	joined_ms BIGINT NOT NULL,
	changed_ms BIGINT NOT NULL,
	labels TEXT DEFAULT '{}' NOT NULL,
	until_ms BIGINT,
	state_by TEXT DEFAULT 'operator' NOT NULL,
	state_ms BIGINT DEFAULT '0' NOT NULL,
	expected_gpus BIGINT DEFAULT '0' NOT NULL,
	CONSTRAINT pk_nodes PRIMARY KEY (id)
);
CREATE TABLE queues (
	name TEXT NOT NULL,
	settings TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_queues PRIMARY KEY (name)
);
CREATE TABLE rejected_writes (
	id INTEGER NOT NULL,
	data BLOB NOT NULL,
	reason TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_rejected_writes PRIMARY KEY (id)
);
CREATE TABLE settings (
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_settings PRIMARY KEY ("key")
);
CREATE TABLE teams (
	id INTEGER NOT NULL,
	name TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	default_experiment_id BIGINT,
	settings TEXT NOT NULL,
	CONSTRAINT pk_teams PRIMARY KEY (id),
	CONSTRAINT uq_teams_name UNIQUE (name)
);
CREATE TABLE trace_links (
	team_id BIGINT NOT NULL,
	trace_id TEXT NOT NULL,
	run_uuid TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_trace_links PRIMARY KEY (trace_id, team_id, run_uuid)
);
CREATE TABLE uploads (
	id TEXT NOT NULL,
	team_id BIGINT NOT NULL,
	experiment_id BIGINT NOT NULL,
	owner TEXT NOT NULL,
	path TEXT NOT NULL,
	state TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_uploads PRIMARY KEY (id)
);
CREATE TABLE users (
	id INTEGER NOT NULL,
	name TEXT NOT NULL,
	is_admin BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	disabled_ms BIGINT,
	CONSTRAINT pk_users PRIMARY KEY (id),
	CONSTRAINT uq_users_name UNIQUE (name)
);
CREATE TABLE alert_channels (
	id TEXT NOT NULL,
	team_id INTEGER,
	name TEXT NOT NULL,
	kind TEXT NOT NULL,
	target TEXT NOT NULL,
	shown TEXT NOT NULL,
	secret TEXT,
	actor TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_alert_channels PRIMARY KEY (id),
	CONSTRAINT fk_alert_channels_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_channels_team_id_name ON alert_channels (team_id, name);
CREATE TABLE alert_deliveries (
	id INTEGER NOT NULL,
	team_id INTEGER,
	rule_id TEXT NOT NULL,
	channel TEXT NOT NULL,
	channel_kind TEXT NOT NULL,
	what TEXT NOT NULL,
	incidents TEXT NOT NULL,
	state TEXT NOT NULL,
	tries BIGINT NOT NULL,
	next_ms BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	ended_ms BIGINT,
	answer_status BIGINT,
	error TEXT NOT NULL,
	CONSTRAINT pk_alert_deliveries PRIMARY KEY (id),
	CONSTRAINT fk_alert_deliveries_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_deliveries_state_next_ms ON alert_deliveries (state, next_ms);
CREATE INDEX ix_alert_deliveries_team_id_id ON alert_deliveries (team_id, id);
CREATE TABLE alert_rules (
	id TEXT NOT NULL,
	team_id INTEGER,
	scope TEXT NOT NULL,
	text TEXT NOT NULL,
	via TEXT NOT NULL,
	severity TEXT NOT NULL,
	cooldown_ms BIGINT NOT NULL,
	group_ms BIGINT NOT NULL,
	escalate_ms BIGINT,
	escalate_via TEXT NOT NULL,
	enabled BIGINT NOT NULL,
	actor TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_alert_rules PRIMARY KEY (id),
	CONSTRAINT uq_alert_rules_scope_text_team_id UNIQUE (scope, text, team_id),
	CONSTRAINT fk_alert_rules_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_rules_team_id_created_ms ON alert_rules (team_id, created_ms);
CREATE TABLE alert_silences (
	id TEXT NOT NULL,
	team_id INTEGER,
	rule_id TEXT NOT NULL,
	subject_id TEXT NOT NULL,
	reason TEXT NOT NULL,
	until_ms BIGINT NOT NULL,
	actor TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_alert_silences PRIMARY KEY (id),
	CONSTRAINT fk_alert_silences_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_silences_until_ms ON alert_silences (until_ms);
CREATE TABLE arriving_arrays (
	array_id TEXT NOT NULL,
	name TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	"plan" TEXT NOT NULL,
	done BIGINT NOT NULL,
	written_ms BIGINT NOT NULL,
	CONSTRAINT pk_arriving_arrays PRIMARY KEY (array_id),
	CONSTRAINT fk_arriving_arrays_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE budgets (
	team_id INTEGER NOT NULL,
	gpu_hours FLOAT,
	cost FLOAT,
	warn_at FLOAT,
	hold BIGINT NOT NULL,
	month TEXT NOT NULL,
	used_gpu_hours FLOAT NOT NULL,
	used_cost FLOAT NOT NULL,
	counted_ms BIGINT NOT NULL,
	state TEXT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_budgets PRIMARY KEY (team_id),
	CONSTRAINT fk_budgets_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE data_contents (
	team_id INTEGER NOT NULL,
	sha256 TEXT NOT NULL,
	blob TEXT NOT NULL,
	start BIGINT NOT NULL,
	size BIGINT NOT NULL,
	seen_ms BIGINT NOT NULL,
	CONSTRAINT pk_data_contents PRIMARY KEY (team_id, sha256),
	CONSTRAINT fk_data_contents_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_data_contents_blob ON data_contents (blob);
CREATE TABLE data_packs (
	blob TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	size BIGINT NOT NULL,
	sha256 TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_data_packs PRIMARY KEY (blob),
	CONSTRAINT fk_data_packs_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE data_places (
	team_id INTEGER NOT NULL,
	node TEXT NOT NULL,
	digest TEXT NOT NULL,
	seen_ms BIGINT NOT NULL,
	CONSTRAINT pk_data_places PRIMARY KEY (team_id, node, digest),
	CONSTRAINT fk_data_places_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE data_sets (
	id INTEGER NOT NULL,
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	user_name TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	last_version BIGINT NOT NULL,
	CONSTRAINT pk_data_sets PRIMARY KEY (id),
	CONSTRAINT uq_data_sets_team_id_name UNIQUE (team_id, name),
	CONSTRAINT fk_data_sets_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE eval_datasets (
	id TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	schema TEXT,
	profile TEXT,
	digest TEXT NOT NULL,
	created_by TEXT NOT NULL,
	updated_by TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_eval_datasets PRIMARY KEY (id),
	CONSTRAINT fk_eval_datasets_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_eval_datasets_team_id_name ON eval_datasets (team_id, name);
CREATE TABLE experiments (
	id INTEGER NOT NULL,
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	artifact_location TEXT NOT NULL,
	lifecycle TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_experiments PRIMARY KEY (id),
	CONSTRAINT uq_experiments_team_id_name UNIQUE (team_id, name),
	CONSTRAINT fk_experiments_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE identities (
	issuer TEXT NOT NULL,
	subject TEXT NOT NULL,
	user_id INTEGER NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_identities PRIMARY KEY (issuer, subject),
	CONSTRAINT fk_identities_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE imported (
	team_id INTEGER NOT NULL,
	kind TEXT NOT NULL,
	source_key TEXT NOT NULL,
	target TEXT NOT NULL,
	digest TEXT NOT NULL,
	imported_ms BIGINT NOT NULL,
	CONSTRAINT pk_imported PRIMARY KEY (team_id, kind, source_key),
	CONSTRAINT fk_imported_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE inbox (
	id INTEGER NOT NULL,
	user_id INTEGER NOT NULL,
	team_id INTEGER,
	kind TEXT NOT NULL,
	title TEXT NOT NULL,
	link TEXT NOT NULL,
	about TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	read_ms BIGINT,
	CONSTRAINT pk_inbox PRIMARY KEY (id),
	CONSTRAINT uq_inbox_user_id_about UNIQUE (user_id, about),
	CONSTRAINT fk_inbox_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
	CONSTRAINT fk_inbox_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_inbox_user_id_id ON inbox (user_id, id);
CREATE TABLE jobs (
	id INTEGER NOT NULL,
	job_id TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	user_id BIGINT,
	user_name TEXT NOT NULL,
	spec_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	queue TEXT NOT NULL,
	priority BIGINT NOT NULL,
	held BIGINT NOT NULL,
	not_before_ms BIGINT NOT NULL,
	submitted_ms BIGINT NOT NULL,
	started_ms BIGINT,
	ended_ms BIGINT,
	run_uuid TEXT NOT NULL,
	array_id TEXT NOT NULL,
	array_index BIGINT,
	array_cap BIGINT NOT NULL,
	attempt BIGINT NOT NULL,
	epoch BIGINT NOT NULL,
	failures BIGINT NOT NULL,
	interruptions BIGINT NOT NULL,
	attained_ms BIGINT NOT NULL,
	avoid TEXT NOT NULL,
	engine_note TEXT NOT NULL,
	cause TEXT,
	sentence TEXT,
	version BIGINT NOT NULL,
	CONSTRAINT pk_jobs PRIMARY KEY (id),
	CONSTRAINT uq_jobs_job_id UNIQUE (job_id),
	CONSTRAINT fk_jobs_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE,
	CONSTRAINT fk_jobs_spec_id FOREIGN KEY(spec_id) REFERENCES job_specs (id) ON DELETE CASCADE
);
CREATE INDEX ix_jobs_array_id ON jobs (array_id);
CREATE INDEX ix_jobs_run_uuid ON jobs (run_uuid);
CREATE INDEX ix_jobs_state_ended_ms ON jobs (state, ended_ms);
CREATE INDEX ix_jobs_state_version_id ON jobs (state, version, id);
CREATE INDEX ix_jobs_team_id_id ON jobs (team_id, id);
CREATE INDEX ix_jobs_team_id_name_id ON jobs (team_id, name, id);
CREATE TABLE leases (
	id INTEGER NOT NULL,
	lease_id TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	user_id BIGINT,
	user_name TEXT NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	kind TEXT NOT NULL,
	personal BIGINT NOT NULL,
	starts_ms BIGINT NOT NULL,
	ends_ms BIGINT NOT NULL,
	asked TEXT NOT NULL,
	min_nodes BIGINT NOT NULL,
	max_nodes BIGINT NOT NULL,
	before_end TEXT NOT NULL,
	purpose TEXT NOT NULL,
	provider TEXT NOT NULL,
	provider_ref TEXT NOT NULL,
	parent BIGINT,
	degraded BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	changed_ms BIGINT NOT NULL,
	started_ms BIGINT,
	ended_ms BIGINT,
	warned_ms BIGINT,
	used_ms BIGINT,
	nudged_ms BIGINT,
	lent_ms BIGINT,
	sentence TEXT NOT NULL,
	hold TEXT NOT NULL,
	version BIGINT NOT NULL,
	CONSTRAINT pk_leases PRIMARY KEY (id),
	CONSTRAINT uq_leases_lease_id UNIQUE (lease_id),
	CONSTRAINT fk_leases_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_leases_parent ON leases (parent);
CREATE INDEX ix_leases_state_ends_ms ON leases (state, ends_ms);
CREATE INDEX ix_leases_team_id_ends_ms ON leases (team_id, ends_ms);
CREATE TABLE log_policies (
	id TEXT NOT NULL,
	team_id INTEGER,
	queue TEXT NOT NULL,
	pattern TEXT NOT NULL,
	label TEXT NOT NULL,
	exclude_node BIGINT NOT NULL,
	stop_retries BIGINT NOT NULL,
	message TEXT NOT NULL,
	actor TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_log_policies PRIMARY KEY (id),
	CONSTRAINT fk_log_policies_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE members (
	team_id INTEGER NOT NULL,
	user_id INTEGER NOT NULL,
	role TEXT NOT NULL,
	CONSTRAINT pk_members PRIMARY KEY (team_id, user_id),
	CONSTRAINT fk_members_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE,
	CONSTRAINT fk_members_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_members_user_id ON members (user_id);
CREATE TABLE models (
	id INTEGER NOT NULL,
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	description TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	last_version BIGINT NOT NULL,
	CONSTRAINT pk_models PRIMARY KEY (id),
	CONSTRAINT uq_models_team_id_name UNIQUE (team_id, name),
	CONSTRAINT fk_models_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE packages (
	team_id INTEGER NOT NULL,
	digest TEXT NOT NULL,
	blob TEXT NOT NULL,
	size BIGINT NOT NULL,
	format TEXT NOT NULL,
	user_name TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_packages PRIMARY KEY (team_id, digest),
	CONSTRAINT fk_packages_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_packages_blob ON packages (blob);
CREATE TABLE ray_jobs (
	team_id INTEGER NOT NULL,
	submission_id TEXT NOT NULL,
	job_id TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	deleted_ms BIGINT,
	CONSTRAINT pk_ray_jobs PRIMARY KEY (team_id, submission_id),
	CONSTRAINT fk_ray_jobs_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_ray_jobs_job_id ON ray_jobs (job_id);
CREATE TABLE ray_packages (
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	digest TEXT NOT NULL,
	user_name TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_ray_packages PRIMARY KEY (team_id, name),
	CONSTRAINT fk_ray_packages_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE reports (
	id INTEGER NOT NULL,
	report_id TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	title TEXT NOT NULL,
	text TEXT NOT NULL,
	version BIGINT NOT NULL,
	user_name TEXT NOT NULL,
	changed_by TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	changed_ms BIGINT NOT NULL,
	CONSTRAINT pk_reports PRIMARY KEY (id),
	CONSTRAINT uq_reports_report_id UNIQUE (report_id),
	CONSTRAINT fk_reports_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_reports_team_id_changed_ms ON reports (team_id, changed_ms);
CREATE TABLE secrets (
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	sealed TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	actor TEXT NOT NULL,
	CONSTRAINT pk_secrets PRIMARY KEY (team_id, name),
	CONSTRAINT fk_secrets_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE sessions (
	digest TEXT NOT NULL,
	user_id INTEGER NOT NULL,
	csrf TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	seen_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	CONSTRAINT pk_sessions PRIMARY KEY (digest),
	CONSTRAINT fk_sessions_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE signins (
	digest TEXT NOT NULL,
	user_id INTEGER NOT NULL,
	expires_ms BIGINT NOT NULL,
	used_ms BIGINT,
	CONSTRAINT pk_signins PRIMARY KEY (digest),
	CONSTRAINT fk_signins_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE submissions (
	team_id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	job_id TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_submissions PRIMARY KEY (team_id, "key"),
	CONSTRAINT fk_submissions_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE sweeps (
	id INTEGER NOT NULL,
	sweep_id TEXT NOT NULL,
	array_id TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	user_id BIGINT,
	user_name TEXT NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	spec TEXT NOT NULL,
	job TEXT NOT NULL,
	sealed TEXT NOT NULL,
	origin TEXT NOT NULL,
	sentence TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	spent_ms BIGINT NOT NULL,
	resumed_ms BIGINT NOT NULL,
	ended_ms BIGINT,
	version BIGINT NOT NULL,
	CONSTRAINT pk_sweeps PRIMARY KEY (id),
	CONSTRAINT uq_sweeps_sweep_id UNIQUE (sweep_id),
	CONSTRAINT uq_sweeps_array_id UNIQUE (array_id),
	CONSTRAINT fk_sweeps_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_sweeps_state ON sweeps (state);
CREATE INDEX ix_sweeps_team_id_id ON sweeps (team_id, id);
CREATE TABLE team_shares (
	team_id INTEGER NOT NULL,
	weight FLOAT NOT NULL,
	quota_gpus FLOAT,
	limit_gpus FLOAT,
	max_running BIGINT,
	usage FLOAT NOT NULL,
	usage_ms BIGINT NOT NULL,
	classes TEXT,
	urgent_gpu_hours FLOAT,
	parent TEXT,
	lendable_gpus FLOAT,
	CONSTRAINT pk_team_shares PRIMARY KEY (team_id),
	CONSTRAINT fk_team_shares_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE TABLE tokens (
	id TEXT NOT NULL,
	digest TEXT NOT NULL,
	kind TEXT NOT NULL,
	user_id INTEGER,
	team_id INTEGER NOT NULL,
	role TEXT NOT NULL,
	label TEXT NOT NULL,
	scope TEXT,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT,
	used_ms BIGINT,
	revoked_ms BIGINT,
	parent_id TEXT,
	CONSTRAINT pk_tokens PRIMARY KEY (id),
	CONSTRAINT uq_tokens_digest UNIQUE (digest),
	CONSTRAINT fk_tokens_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
	CONSTRAINT fk_tokens_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_tokens_parent_id ON tokens (parent_id);
CREATE TABLE webhooks (
	id TEXT NOT NULL,
	team_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	description TEXT NOT NULL,
	url TEXT NOT NULL,
	events TEXT NOT NULL,
	status TEXT NOT NULL,
	secret TEXT,
	after_event BIGINT NOT NULL,
	actor TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_webhooks PRIMARY KEY (id),
	CONSTRAINT fk_webhooks_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_webhooks_team_id_created_ms ON webhooks (team_id, created_ms);
CREATE TABLE alert_incidents (
	id INTEGER NOT NULL,
	rule_id TEXT,
	team_id INTEGER,
	text TEXT NOT NULL,
	severity TEXT NOT NULL,
	subject_kind TEXT NOT NULL,
	subject_id TEXT NOT NULL,
	subject_name TEXT NOT NULL,
	job_id TEXT NOT NULL,
	sentence TEXT NOT NULL,
	state TEXT NOT NULL,
	times BIGINT NOT NULL,
	opened_ms BIGINT NOT NULL,
	last_ms BIGINT NOT NULL,
	told_ms BIGINT,
	acked_by TEXT,
	acked_ms BIGINT,
	resolved_ms BIGINT,
	escalate_at_ms BIGINT,
	CONSTRAINT pk_alert_incidents PRIMARY KEY (id),
	CONSTRAINT fk_alert_incidents_rule_id FOREIGN KEY(rule_id) REFERENCES alert_rules (id) ON DELETE SET NULL,
	CONSTRAINT fk_alert_incidents_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_alert_incidents_job_id_id ON alert_incidents (job_id, id);
CREATE INDEX ix_alert_incidents_rule_id_subject_id_id ON alert_incidents (rule_id, subject_id, id);
CREATE INDEX ix_alert_incidents_state_escalate_at_ms ON alert_incidents (state, escalate_at_ms);
CREATE INDEX ix_alert_incidents_team_id_id ON alert_incidents (team_id, id);
CREATE TABLE alert_states (
	rule_id TEXT NOT NULL,
	subject TEXT NOT NULL,
	memory TEXT NOT NULL,
	CONSTRAINT pk_alert_states PRIMARY KEY (rule_id, subject),
	CONSTRAINT fk_alert_states_rule_id FOREIGN KEY(rule_id) REFERENCES alert_rules (id) ON DELETE CASCADE
);
CREATE TABLE attempts (
	id INTEGER NOT NULL,
	attempt_id TEXT NOT NULL,
	job INTEGER NOT NULL,
	number BIGINT NOT NULL,
	epoch BIGINT NOT NULL,
	state TEXT NOT NULL,
	placement TEXT NOT NULL,
	members BIGINT NOT NULL,
	admitted_ms BIGINT NOT NULL,
	launched_ms BIGINT,
	started_ms BIGINT,
	ended_ms BIGINT,
	seen_ms BIGINT,
	cause TEXT,
	exit_code BIGINT,
	signal BIGINT,
	sentence TEXT,
	error_line TEXT,
	saved BIGINT NOT NULL,
	peak_memory_bytes BIGINT,
	stop_reason TEXT,
	stop_ms BIGINT,
	grace_ms BIGINT,
	stops_for TEXT,
	resume_step BIGINT,
	step BIGINT,
	environment TEXT NOT NULL,
	token_id TEXT NOT NULL,
	claimed TEXT NOT NULL,
	notes TEXT NOT NULL,
	stalled BIGINT NOT NULL,
	nan_seen BIGINT NOT NULL,
	settled BIGINT NOT NULL,
	log_pruned_ms BIGINT,
	priority BIGINT,
	unpacked_ms BIGINT,
	first_step_ms BIGINT,
	CONSTRAINT pk_attempts PRIMARY KEY (id),
	CONSTRAINT uq_attempts_attempt_id UNIQUE (attempt_id),
	CONSTRAINT uq_attempts_job_number UNIQUE (job, number),
	CONSTRAINT fk_attempts_job FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE INDEX ix_attempts_ended_ms ON attempts (ended_ms);
CREATE INDEX ix_attempts_settled_state ON attempts (settled, state);
CREATE INDEX ix_attempts_state ON attempts (state);
CREATE TABLE checkpoints (
	id INTEGER NOT NULL,
	job INTEGER NOT NULL,
	attempt BIGINT NOT NULL,
	name TEXT NOT NULL,
	step BIGINT NOT NULL,
	sequence BIGINT NOT NULL,
	size_bytes BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	blocked_ms BIGINT DEFAULT '0' NOT NULL,
	CONSTRAINT pk_checkpoints PRIMARY KEY (id),
	CONSTRAINT uq_checkpoints_job_name UNIQUE (job, name),
	CONSTRAINT fk_checkpoints_job FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE INDEX ix_checkpoints_created_ms ON checkpoints (created_ms);
CREATE TABLE data_versions (
	id INTEGER NOT NULL,
	data_set_id INTEGER NOT NULL,
	team_id INTEGER NOT NULL,
	version BIGINT NOT NULL,
	digest TEXT NOT NULL,
	manifest_blob TEXT NOT NULL,
	manifest_bytes BIGINT NOT NULL,
	files BIGINT NOT NULL,
	size_bytes BIGINT NOT NULL,
	layout TEXT NOT NULL,
	classes TEXT NOT NULL,
	source TEXT NOT NULL,
	user_name TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	used_ms BIGINT NOT NULL,
	CONSTRAINT pk_data_versions PRIMARY KEY (id),
	CONSTRAINT uq_data_versions_data_set_id_version UNIQUE (data_set_id, version),
	CONSTRAINT uq_data_versions_data_set_id_digest UNIQUE (data_set_id, digest),
	CONSTRAINT fk_data_versions_data_set_id FOREIGN KEY(data_set_id) REFERENCES data_sets (id) ON DELETE CASCADE,
	CONSTRAINT fk_data_versions_team_id FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE CASCADE
);
CREATE INDEX ix_data_versions_team_id_digest ON data_versions (team_id, digest);
CREATE TABLE datasets (
	id INTEGER NOT NULL,
	experiment_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	digest TEXT NOT NULL,
	source_type TEXT NOT NULL,
	source TEXT NOT NULL,
	schema TEXT,
	profile TEXT,
	CONSTRAINT pk_datasets PRIMARY KEY (id),
	CONSTRAINT uq_datasets_experiment_id_name_digest UNIQUE (experiment_id, name, digest),
	CONSTRAINT fk_datasets_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE TABLE eval_dataset_experiments (
	dataset_id TEXT NOT NULL,
	experiment_id INTEGER NOT NULL,
	CONSTRAINT pk_eval_dataset_experiments PRIMARY KEY (dataset_id, experiment_id),
	CONSTRAINT fk_eval_dataset_experiments_dataset_id FOREIGN KEY(dataset_id) REFERENCES eval_datasets (id) ON DELETE CASCADE,
	CONSTRAINT fk_eval_dataset_experiments_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE TABLE eval_dataset_tags (
	dataset_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_eval_dataset_tags PRIMARY KEY (dataset_id, "key"),
	CONSTRAINT fk_eval_dataset_tags_dataset_id FOREIGN KEY(dataset_id) REFERENCES eval_datasets (id) ON DELETE CASCADE
);
CREATE TABLE eval_records (
	id TEXT NOT NULL,
	dataset_id TEXT NOT NULL,
	input_digest TEXT NOT NULL,
	data TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_eval_records PRIMARY KEY (id),
	CONSTRAINT uq_eval_records_dataset_id_input_digest UNIQUE (dataset_id, input_digest),
	CONSTRAINT fk_eval_records_dataset_id FOREIGN KEY(dataset_id) REFERENCES eval_datasets (id) ON DELETE CASCADE
);
CREATE TABLE experiment_tags (
	experiment_id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_experiment_tags PRIMARY KEY (experiment_id, "key"),
	CONSTRAINT fk_experiment_tags_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE TABLE lease_nodes (
	lease INTEGER NOT NULL,
	node_id TEXT NOT NULL,
	bound_ms BIGINT NOT NULL,
	lost_ms BIGINT,
	replaced_ms BIGINT,
	CONSTRAINT pk_lease_nodes PRIMARY KEY (lease, node_id),
	CONSTRAINT fk_lease_nodes_lease FOREIGN KEY(lease) REFERENCES leases (id) ON DELETE CASCADE
);
CREATE INDEX ix_lease_nodes_node_id ON lease_nodes (node_id);
CREATE TABLE logged_models (
	id TEXT NOT NULL,
	team_id BIGINT NOT NULL,
	experiment_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	artifact_uri TEXT NOT NULL,
	status TEXT NOT NULL,
	status_message TEXT NOT NULL,
	model_type TEXT NOT NULL,
	source_run TEXT NOT NULL,
	lifecycle TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	CONSTRAINT pk_logged_models PRIMARY KEY (id),
	CONSTRAINT fk_logged_models_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE INDEX ix_logged_models_experiment_id_created_ms ON logged_models (experiment_id, created_ms);
CREATE INDEX ix_logged_models_source_run ON logged_models (source_run);
CREATE TABLE model_aliases (
	model_id INTEGER NOT NULL,
	alias TEXT NOT NULL,
	version BIGINT NOT NULL,
	CONSTRAINT pk_model_aliases PRIMARY KEY (model_id, alias),
	CONSTRAINT fk_model_aliases_model_id FOREIGN KEY(model_id) REFERENCES models (id) ON DELETE CASCADE
);
CREATE TABLE model_tags (
	model_id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_model_tags PRIMARY KEY (model_id, "key"),
	CONSTRAINT fk_model_tags_model_id FOREIGN KEY(model_id) REFERENCES models (id) ON DELETE CASCADE
);
CREATE TABLE model_versions (
	id INTEGER NOT NULL,
	model_id INTEGER NOT NULL,
	version BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	description TEXT NOT NULL,
	user_name TEXT NOT NULL,
	stage TEXT NOT NULL,
	source TEXT NOT NULL,
	run_uuid TEXT NOT NULL,
	run_link TEXT NOT NULL,
	logged_model_id TEXT NOT NULL,
	status TEXT NOT NULL,
	status_message TEXT NOT NULL,
	storage_location TEXT NOT NULL,
	CONSTRAINT pk_model_versions PRIMARY KEY (id),
	CONSTRAINT uq_model_versions_model_id_version UNIQUE (model_id, version),
	CONSTRAINT fk_model_versions_model_id FOREIGN KEY(model_id) REFERENCES models (id) ON DELETE CASCADE
);
CREATE INDEX ix_model_versions_logged_model_id ON model_versions (logged_model_id);
CREATE INDEX ix_model_versions_run_uuid ON model_versions (run_uuid);
CREATE TABLE runs (
	id INTEGER NOT NULL,
	uuid TEXT NOT NULL,
	experiment_id INTEGER NOT NULL,
	team_id BIGINT NOT NULL,
	name TEXT NOT NULL,
	user_name TEXT NOT NULL,
	status TEXT NOT NULL,
	start_ms BIGINT,
	end_ms BIGINT,
	lifecycle TEXT NOT NULL,
	deleted_ms BIGINT,
	artifact_uri TEXT NOT NULL,
	CONSTRAINT pk_runs PRIMARY KEY (id),
	CONSTRAINT uq_runs_uuid UNIQUE (uuid),
	CONSTRAINT fk_runs_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE INDEX ix_runs_experiment_id_start_ms ON runs (experiment_id, start_ms);
CREATE INDEX ix_runs_team_id_start_ms ON runs (team_id, start_ms);
CREATE TABLE scorers (
	id INTEGER NOT NULL,
	experiment_id INTEGER NOT NULL,
	scorer_id TEXT NOT NULL,
	name TEXT NOT NULL,
	version BIGINT NOT NULL,
	serialized TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_scorers PRIMARY KEY (id),
	CONSTRAINT uq_scorers_experiment_id_name_version UNIQUE (experiment_id, name, version),
	CONSTRAINT fk_scorers_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE TABLE sweep_trials (
	sweep INTEGER NOT NULL,
	number BIGINT NOT NULL,
	job INTEGER NOT NULL,
	state TEXT NOT NULL,
	params TEXT NOT NULL,
	attributes TEXT NOT NULL,
	value FLOAT,
	step BIGINT,
	bracket BIGINT NOT NULL,
	rungs TEXT NOT NULL,
	curve TEXT NOT NULL,
	parent BIGINT,
	sentence TEXT NOT NULL,
	gpu_seconds FLOAT NOT NULL,
	created_ms BIGINT NOT NULL,
	ended_ms BIGINT,
	CONSTRAINT pk_sweep_trials PRIMARY KEY (sweep, number),
	CONSTRAINT fk_sweep_trials_sweep FOREIGN KEY(sweep) REFERENCES sweeps (id) ON DELETE CASCADE,
	CONSTRAINT fk_sweep_trials_job FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE INDEX ix_sweep_trials_job ON sweep_trials (job);
CREATE TABLE traces (
	id TEXT NOT NULL,
	team_id BIGINT NOT NULL,
	experiment_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	time_ms BIGINT NOT NULL,
	duration_ms BIGINT,
	client_request_id TEXT NOT NULL,
	request_preview TEXT NOT NULL,
	response_preview TEXT NOT NULL,
	CONSTRAINT pk_traces PRIMARY KEY (id),
	CONSTRAINT fk_traces_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiments (id) ON DELETE CASCADE
);
CREATE INDEX ix_traces_experiment_id_time_ms ON traces (experiment_id, time_ms);
CREATE TABLE webhook_deliveries (
	id TEXT NOT NULL,
	webhook_id TEXT NOT NULL,
	event TEXT NOT NULL,
	body TEXT NOT NULL,
	state TEXT NOT NULL,
	tries BIGINT NOT NULL,
	next_ms BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	ended_ms BIGINT,
	answer_status BIGINT,
	error TEXT NOT NULL,
	CONSTRAINT pk_webhook_deliveries PRIMARY KEY (id),
	CONSTRAINT fk_webhook_deliveries_webhook_id FOREIGN KEY(webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE
);
CREATE INDEX ix_webhook_deliveries_state_next_ms ON webhook_deliveries (state, next_ms);
CREATE INDEX ix_webhook_deliveries_webhook_id_created_ms ON webhook_deliveries (webhook_id, created_ms);
CREATE TABLE assessments (
	id TEXT NOT NULL,
	trace_id TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	data TEXT NOT NULL,
	CONSTRAINT pk_assessments PRIMARY KEY (id),
	CONSTRAINT fk_assessments_trace_id FOREIGN KEY(trace_id) REFERENCES traces (id) ON DELETE CASCADE
);
CREATE INDEX ix_assessments_trace_id ON assessments (trace_id);
CREATE TABLE attempt_members (
	attempt INTEGER NOT NULL,
	member BIGINT NOT NULL,
	log_end BIGINT NOT NULL,
	log_lost BIGINT NOT NULL,
	sample_seq BIGINT NOT NULL,
	hostname TEXT NOT NULL,
	exit TEXT,
	CONSTRAINT pk_attempt_members PRIMARY KEY (attempt, member),
	CONSTRAINT fk_attempt_members_attempt FOREIGN KEY(attempt) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE TABLE claims (
	job INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	generation BIGINT NOT NULL,
	source TEXT NOT NULL,
	workers BIGINT NOT NULL,
	least BIGINT NOT NULL,
	granted BIGINT,
	ask TEXT NOT NULL,
	released_ms BIGINT,
	CONSTRAINT pk_claims PRIMARY KEY (job),
	CONSTRAINT uq_claims_attempt_key_generation UNIQUE (attempt, "key", generation),
	CONSTRAINT fk_claims_job FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE,
	CONSTRAINT fk_claims_attempt FOREIGN KEY(attempt) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE INDEX ix_claims_attempt_released_ms ON claims (attempt, released_ms);
CREATE TABLE data_uses (
	version_id INTEGER NOT NULL,
	run_uuid TEXT NOT NULL,
	job_id TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	CONSTRAINT pk_data_uses PRIMARY KEY (version_id, run_uuid),
	CONSTRAINT fk_data_uses_version_id FOREIGN KEY(version_id) REFERENCES data_versions (id) ON DELETE CASCADE
);
CREATE INDEX ix_data_uses_run_uuid ON data_uses (run_uuid);
CREATE TABLE log_chunks (
	attempt INTEGER NOT NULL,
	member BIGINT NOT NULL,
	start BIGINT NOT NULL,
	size BIGINT NOT NULL,
	packed BIGINT NOT NULL,
	data BLOB NOT NULL,
	CONSTRAINT pk_log_chunks PRIMARY KEY (attempt, member, start),
	CONSTRAINT fk_log_chunks_attempt FOREIGN KEY(attempt) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE TABLE logged_model_metrics (
	id INTEGER NOT NULL,
	model_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	time_ms BIGINT NOT NULL,
	step BIGINT NOT NULL,
	value FLOAT,
	run_uuid TEXT NOT NULL,
	dataset_name TEXT,
	dataset_digest TEXT,
	CONSTRAINT pk_logged_model_metrics PRIMARY KEY (id),
	CONSTRAINT uq_logged_model_metrics_model_id_key_time_ms_step_run_uuid UNIQUE (model_id, "key", time_ms, step, run_uuid),
	CONSTRAINT fk_logged_model_metrics_model_id FOREIGN KEY(model_id) REFERENCES logged_models (id) ON DELETE CASCADE
);
CREATE TABLE logged_model_params (
	model_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_logged_model_params PRIMARY KEY (model_id, "key"),
	CONSTRAINT fk_logged_model_params_model_id FOREIGN KEY(model_id) REFERENCES logged_models (id) ON DELETE CASCADE
);
CREATE TABLE logged_model_tags (
	model_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_logged_model_tags PRIMARY KEY (model_id, "key"),
	CONSTRAINT fk_logged_model_tags_model_id FOREIGN KEY(model_id) REFERENCES logged_models (id) ON DELETE CASCADE
);
CREATE TABLE metric_latest (
	run_id INTEGER NOT NULL,
	name_id BIGINT NOT NULL,
	step BIGINT NOT NULL,
	time_ms BIGINT NOT NULL,
	value FLOAT,
	least FLOAT,
	most FLOAT,
	wire TEXT,
	CONSTRAINT pk_metric_latest PRIMARY KEY (run_id, name_id),
	CONSTRAINT fk_metric_latest_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
)
 WITHOUT ROWID;
CREATE INDEX ix_metric_latest_name_id_value_run_id ON metric_latest (name_id, value, run_id);
CREATE TABLE model_version_tags (
	version_id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_model_version_tags PRIMARY KEY (version_id, "key"),
	CONSTRAINT fk_model_version_tags_version_id FOREIGN KEY(version_id) REFERENCES model_versions (id) ON DELETE CASCADE
);
CREATE TABLE params (
	run_id INTEGER NOT NULL,
	name_id BIGINT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_params PRIMARY KEY (run_id, name_id),
	CONSTRAINT fk_params_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
)
 WITHOUT ROWID;
CREATE INDEX ix_params_short_values ON params (name_id, run_id, value) WHERE length(value) <= 200;
CREATE TABLE rollbacks (
	run_id INTEGER NOT NULL,
	attempt BIGINT NOT NULL,
	step BIGINT NOT NULL,
	CONSTRAINT pk_rollbacks PRIMARY KEY (run_id, attempt),
	CONSTRAINT fk_rollbacks_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE run_datasets (
	id INTEGER NOT NULL,
	run_id INTEGER NOT NULL,
	dataset_id INTEGER NOT NULL,
	tags TEXT NOT NULL,
	CONSTRAINT pk_run_datasets PRIMARY KEY (id),
	CONSTRAINT uq_run_datasets_run_id_dataset_id UNIQUE (run_id, dataset_id),
	CONSTRAINT fk_run_datasets_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE,
	CONSTRAINT fk_run_datasets_dataset_id FOREIGN KEY(dataset_id) REFERENCES datasets (id) ON DELETE CASCADE
);
CREATE TABLE run_models (
	run_id INTEGER NOT NULL,
	model_id TEXT NOT NULL,
	direction TEXT NOT NULL,
	step BIGINT NOT NULL,
	CONSTRAINT pk_run_models PRIMARY KEY (run_id, direction, model_id),
	CONSTRAINT fk_run_models_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_run_models_model_id ON run_models (model_id);
CREATE TABLE tags (
	run_id INTEGER NOT NULL,
	name_id BIGINT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_tags PRIMARY KEY (run_id, name_id),
	CONSTRAINT fk_tags_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
)
 WITHOUT ROWID;
CREATE INDEX ix_tags_short_values ON tags (name_id, run_id, value) WHERE length(value) <= 200;
CREATE TABLE trace_metadata (
	trace_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_trace_metadata PRIMARY KEY (trace_id, "key"),
	CONSTRAINT fk_trace_metadata_trace_id FOREIGN KEY(trace_id) REFERENCES traces (id) ON DELETE CASCADE
);
CREATE TABLE trace_runs (
	trace_id TEXT NOT NULL,
	run_uuid TEXT NOT NULL,
	CONSTRAINT pk_trace_runs PRIMARY KEY (trace_id, run_uuid),
	CONSTRAINT fk_trace_runs_trace_id FOREIGN KEY(trace_id) REFERENCES traces (id) ON DELETE CASCADE
);
CREATE INDEX ix_trace_runs_run_uuid ON trace_runs (run_uuid);
CREATE TABLE trace_spans (
	trace_id TEXT NOT NULL,
	span_id TEXT NOT NULL,
	start_ns BIGINT NOT NULL,
	data TEXT NOT NULL,
	CONSTRAINT pk_trace_spans PRIMARY KEY (trace_id, span_id),
	CONSTRAINT fk_trace_spans_trace_id FOREIGN KEY(trace_id) REFERENCES traces (id) ON DELETE CASCADE
);
CREATE TABLE trace_tags (
	trace_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_trace_tags PRIMARY KEY (trace_id, "key"),
	CONSTRAINT fk_trace_tags_trace_id FOREIGN KEY(trace_id) REFERENCES traces (id) ON DELETE CASCADE
);
CREATE TABLE trials (
	attempt INTEGER NOT NULL,
	trial TEXT NOT NULL,
	number BIGINT NOT NULL,
	state TEXT NOT NULL,
	params TEXT NOT NULL,
	metrics TEXT NOT NULL,
	metric TEXT NOT NULL,
	iterations BIGINT NOT NULL,
	ran_ms BIGINT NOT NULL,
	error TEXT NOT NULL,
	CONSTRAINT pk_trials PRIMARY KEY (attempt, trial),
	CONSTRAINT fk_trials_attempt FOREIGN KEY(attempt) REFERENCES attempts (id) ON DELETE CASCADE
);
