/** The shapes of MLflow's own routes, which the server's OpenAPI does not describe. */

export interface KeyValue {
  key: string;
  value: string;
}

export interface RunInfo {
  run_id: string;
  run_name: string;
  experiment_id: string;
  user_id: string;
  status: string;
  start_time: number | null;
  end_time?: number | null;
  artifact_uri: string;
  lifecycle_stage: string;
}

export interface Dataset {
  name: string;
  digest: string;
  source_type?: string;
  source?: string;
  schema?: string;
  profile?: string;
}

export interface Run {
  info: RunInfo;
  data: {
    metrics?: { key: string; value: number | string; step: number; timestamp: number }[];
    params?: KeyValue[];
    tags?: KeyValue[];
  };
  inputs?: {
    dataset_inputs?: { tags?: KeyValue[]; dataset: Dataset }[];
    model_inputs?: { model_id: string }[];
  };
  outputs?: { model_outputs?: { model_id: string; step?: number }[] };
}

export interface Experiment {
  experiment_id: string;
  name: string;
  artifact_location: string;
  lifecycle_stage: string;
  creation_time?: number;
  last_update_time?: number;
  tags?: KeyValue[];
}

export interface FileInfo {
  path: string;
  is_dir: boolean;
  file_size?: number;
}

export interface ModelVersion {
  name: string;
  version: string;
  creation_timestamp: number;
  last_updated_timestamp: number;
  current_stage: string;
  description?: string;
  source: string;
  run_id?: string;
  run_link?: string;
  status: string;
  status_message?: string;
  tags?: KeyValue[];
  aliases?: string[];
}

export interface RegisteredModel {
  name: string;
  creation_timestamp: number;
  last_updated_timestamp: number;
  description?: string;
  latest_versions?: ModelVersion[];
  tags?: KeyValue[];
  aliases?: { alias: string; version: string }[];
}
