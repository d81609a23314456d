/** One version of a model: where it came from, how it is used, its notes and stage. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import { deleteVersion, deleteVersionTag, describeVersion, moveStage, setVersionTag, sourceOf } from "../../api/models";
import { jobQuery } from "../../api/jobs";
import { runQuery, type WholeRun } from "../../api/runs";
import type { ModelVersion } from "../../api/wire";
import { Tags } from "../../features/actions/tags";
import { Note } from "../../features/markdown/note";
import { exact, grouped, short } from "../../lib/format";
import { isSystem } from "../../lib/metric-names";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Copy, IconButton, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

const STAGES = ["None", "Staging", "Production", "Archived"];

export function VersionCard({ version, onChange, onClose }: { version: ModelVersion; onChange: () => Promise<void>; onClose: () => void }): ReactElement {
  const source = sourceOf(version);
  const run = useQuery({ ...runQuery(source.run ?? ""), enabled: source.run !== null });
  const [sure, setSure] = useState(false);
  const target = `${version.name}/${version.version}`;
  const use = `mlflow.pyfunc.load_model("models:/${version.name}/${version.version}")`;
  const remove = (): void => {
    deleteVersion(version.name, version.version).then(
      async () => {
        toast(`Deleted version ${version.version}`, null, yard.editModel(target, "--delete"));
        onClose();
        await onChange();
      },
      (cause: unknown) => complain("The version was not deleted", cause),
    );
  };
  const move = (stage: string): void => {
    moveStage(version.name, version.version, stage).then(
      async () => {
        await onChange();
        toast(`Version ${version.version} is in ${stage}`, null, yard.editModel(target, "--stage", stage));
      },
      (cause: unknown) => complain("The stage was not changed", cause),
    );
  };
  const own = (run.data?.metrics ?? []).filter((metric) => !isSystem(metric.key)).slice(0, 8);
  return (
    <section className="card version-card" aria-label={`Version ${version.version}`}>
      <div className="card-head">
        <h2 className="grow">Version {version.version}</h2>
        <button type="button" className="btn danger small" onClick={() => (sure ? remove() : setSure(true))}>
          <Icon name="trash" />
          {sure ? "Yes, delete for good" : "Delete"}
        </button>
        <IconButton icon="cross" label="Close" onClick={onClose} />
      </div>
      {sure && (
        <div style={{ padding: "0 12px" }}>
          <YardLine line={yard.editModel(target, "--delete")} />
        </div>
      )}
      {run.data !== undefined && <Lineage version={version} whole={run.data} path={source.path} />}
      <dl className="facts">
        <dt>Came from</dt>
        <dd>
          {source.run === null ? (
            version.source
          ) : (
            <Link to="/app/runs/$runId" params={{ runId: source.run }} search={{ tab: "artifacts", path: source.path }}>
              {run.data?.run.info.run_name ?? source.run.slice(0, 8)}
              {source.path === "" ? "" : ` / ${source.path}`}
            </Link>
          )}
          {run.data !== undefined && <span className="muted"> in {run.data.experiment_name}</span>}
        </dd>
        {version.status_message !== undefined && version.status_message !== "" && (
          <>
            <dt>Files</dt>
            <dd>
              {version.status_message}
              {source.run !== null && !version.source.startsWith("runs:/") && <span className="muted"> ({version.source})</span>}
            </dd>
          </>
        )}
        <dt>Registered</dt>
        <dd>{exact(version.creation_timestamp)}</dd>
        <dt>Stage</dt>
        <dd>
          <select
            className="field"
            aria-label="Stage"
            title={yard.editModel(target, "--stage", version.current_stage)}
            value={version.current_stage}
            onChange={(event) => move(event.target.value)}
          >
            {STAGES.map((stage) => (
              <option key={stage}>{stage}</option>
            ))}
          </select>
        </dd>
        <dt>Use</dt>
        <dd className="row" style={{ gap: 4 }}>
          <code className="clip">{use}</code>
          <Copy text={use} />
        </dd>
        <dt>Tags</dt>
        <dd>
          <Tags
            tags={version.tags ?? []}
            onSet={(key, value) => setVersionTag(version.name, version.version, key, value).then(onChange)}
            onRemove={(key) => deleteVersionTag(version.name, version.version, key).then(onChange)}
            line={(key, value) => (value === null ? yard.editModel(target, "--untag", key) : yard.editModel(target, "--tag", `${key}=${value}`))}
          />
        </dd>
        {own.map((metric) => (
          <FactMetric key={metric.key} name={metric.key} value={metric.last} />
        ))}
      </dl>
      <Note title="Notes on this version" text={version.description ?? ""} onSave={(text) => describeVersion(version.name, version.version, text).then(onChange)} line={(text) => yard.editModel(target, "--note", text)} />
    </section>
  );
}

/** From data over job and run to the version: what it was made from, each a step on the way. */
function Lineage({ version, whole, path }: { version: ModelVersion; whole: WholeRun; path: string }): ReactElement {
  const { info, data, inputs } = whole.run;
  const job = (data.tags ?? []).find((tag) => tag.key === "yard.job")?.value;
  const detail = useQuery({ ...jobQuery(job ?? ""), enabled: job !== undefined, staleTime: 60_000 }).data;
  // The last checkpoint of the job is where its training ended.
  const saved = [...(detail?.checkpoints ?? [])].sort((a, b) => b.created_ms - a.created_ms)[0];
  const sets = (inputs?.dataset_inputs ?? []).map(({ dataset }) => `${dataset.name} ${dataset.digest.slice(0, 8)}`);
  const steps: { kind: string; body: ReactElement }[] = [
    ...sets.slice(0, 4).map((name) => ({ kind: "Data", body: <span>{name}</span> })),
    ...(job === undefined ? [] : [{ kind: "Job", body: <Link to="/app/jobs/$jobId" params={{ jobId: job }} search={{}}>{detail?.job.name ?? job}</Link> }]),
    { kind: "Run", body: <Link to="/app/runs/$runId" params={{ runId: info.run_id }} search={{}}>{info.run_name}</Link> },
    ...(saved === undefined || job === undefined ? [] : [{ kind: "Checkpoint", body: <Link to="/app/jobs/$jobId" params={{ jobId: job }} search={{}}>step {grouped(saved.step)}</Link> }]),
    ...(path === "" ? [] : [{ kind: "Files", body: <Link to="/app/runs/$runId" params={{ runId: info.run_id }} search={{ tab: "artifacts", path }}>{path}</Link> }]),
    { kind: "Version", body: <b>{version.version}</b> },
  ];
  return (
    <ol className="lineage" aria-label="Lineage">
      {steps.map(({ kind, body }, at) => (
        <li key={`${kind}-${at}`}>
          <span className="faint">{kind}</span>
          {body}
        </li>
      ))}
    </ol>
  );
}

function FactMetric({ name, value }: { name: string; value: number | string | null }): ReactElement {
  return (
    <>
      <dt className="clip" title={name}>
        {name}
      </dt>
      <dd>{short(value)}</dd>
    </>
  );
}
