/** One model: its versions, where its aliases point, where each version came from. */
import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import "./models.css";
import { deleteModel, deleteModelTag, describeModel, modelQuery, setModelTag, sourceOf, versionsQuery } from "../../api/models";
import { runQuery } from "../../api/runs";
import type { ModelVersion, RegisteredModel } from "../../api/wire";
import { Tags } from "../../features/actions/tags";
import { Note } from "../../features/markdown/note";
import { count, short } from "../../lib/format";
import { scoresOf } from "../../lib/scores";
import { joinList, splitList } from "../../lib/view";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Dialog, MenuButton, MenuItem } from "../../ui/menu";
import { Ago, ErrorCard, PageHead, Skeleton, StateBadge, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";
import { AliasEditor } from "./aliases";
import { CompareVersions } from "./compare-versions";
import { VersionCard } from "./version";

export function ModelPage(): ReactElement {
  const { name } = useParams({ from: "/app/models/$name" });
  const model = useQuery(modelQuery(name));
  const versions = useQuery(versionsQuery(name));
  const fault = model.error ?? versions.error;
  if (fault !== null) {
    return (
      <div className="page-body">
        <ErrorCard title={`The model ${name} could not be read`} error={fault} retry={() => void Promise.all([model.refetch(), versions.refetch()])} />
        <div>
          <Link className="btn" to="/app/models" search={{}}>
            All models
          </Link>
        </div>
      </div>
    );
  }
  return model.data === undefined || versions.data === undefined ? <Skeleton /> : <Loaded model={model.data} versions={versions.data} />;
}

function Loaded({ model, versions }: { model: RegisteredModel; versions: readonly ModelVersion[] }): ReactElement {
  const search = useSearch({ from: "/app/models/$name" });
  const navigate = useNavigate();
  const client = useQueryClient();
  const [deleting, setDeleting] = useState(false);
  const set = (change: Record<string, string>): void => void navigate({ to: "/app/models/$name", params: { name: model.name }, search: { ...search, ...change }, replace: true });
  const refresh = async (): Promise<void> => {
    await Promise.all(["models", "model", "versions"].map((key) => client.invalidateQueries({ queryKey: [key] })));
  };
  const ticked = splitList(search.v).filter((one) => versions.some((version) => version.version === one));
  const toggle = (version: string): void => set({ v: joinList(ticked.includes(version) ? ticked.filter((one) => one !== version) : [...ticked, version]) });
  const open = versions.find((one) => one.version === search.version);
  const compared = versions.filter((one) => ticked.includes(one.version));
  return (
    <>
      <PageHead
        title={
          <>
            <Icon name="models" />
            {model.name}
          </>
        }
        facts={
          <>
            <span>{count(versions.length, "version")}</span>
            <span>
              changed <Ago ms={model.last_updated_timestamp} />
            </span>
          </>
        }
      >
        <button type="button" className="btn" disabled={ticked.length < 2} onClick={() => set({ compare: search.compare === "1" ? "" : "1" })} aria-pressed={search.compare === "1"}>
          <Icon name="compare" />
          Compare {ticked.length > 1 ? `${ticked.length} versions` : "versions"}
        </button>
        <MenuButton name="Actions" label="Actions" width={250}>
          {(close) => (
            <>
              <MenuItem
                icon="trash"
                danger
                onClick={() => {
                  close();
                  setDeleting(true);
                }}
              >
                Delete the model
              </MenuItem>
              <hr />
              <div className="menu-head">In a terminal</div>
              <YardLine line={yard.models(model.name)} />
            </>
          )}
        </MenuButton>
      </PageHead>
      <div className="page-body">
        {search.compare === "1" && compared.length > 1 && <CompareVersions versions={compared} />}
        <div className="columns-2">
          <section className="card" aria-label="Versions">
            <div className="card-head">
              <h2>Versions</h2>
            </div>
            <Versions model={model} versions={versions} ticked={ticked} open={open?.version} onTick={toggle} onOpen={(version) => set({ version })} onChange={refresh} />
          </section>
          <div className="stack">
            {open !== undefined && <VersionCard key={open.version} version={open} onChange={refresh} onClose={() => set({ version: "" })} />}
            <Note title="Description" text={model.description ?? ""} onSave={(text) => describeModel(model.name, text).then(refresh)} line={(text) => yard.editModel(model.name, "--note", text)} />
            <section className="card" aria-label="Tags">
              <div className="card-head">
                <h2>Tags</h2>
              </div>
              <div style={{ padding: 12 }}>
                <Tags tags={model.tags ?? []} onSet={(key, value) => setModelTag(model.name, key, value).then(refresh)} onRemove={(key) => deleteModelTag(model.name, key).then(refresh)} line={(key, value) => (value === null ? yard.editModel(model.name, "--untag", key) : yard.editModel(model.name, "--tag", `${key}=${value}`))} />
              </div>
            </section>
          </div>
        </div>
      </div>
      {deleting && (
        <Dialog title={`Delete ${model.name}?`} onClose={() => setDeleting(false)}>
          <p>
            The model and its {count(versions.length, "version")} are removed for good. The runs and their artifacts stay.
          </p>
          <YardLine line={yard.editModel(model.name, "--delete")} />
          <div className="dialog-foot">
            <button type="button" className="btn" onClick={() => setDeleting(false)}>
              Keep
            </button>
            <button
              type="button"
              className="btn danger"
              onClick={() =>
                void deleteModel(model.name).then(
                  async () => {
                    toast(`Deleted ${model.name}`);
                    await navigate({ to: "/app/models", search: {} });
                    client.removeQueries({ queryKey: ["model"] });
                    await client.invalidateQueries({ queryKey: ["models"] });
                  },
                  (cause: unknown) => complain("The model was not deleted", cause),
                )
              }
            >
              Delete for good
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Versions whose scores are read. */
const SCORED = 30;

interface VersionsProps {
  model: RegisteredModel;
  versions: readonly ModelVersion[];
  ticked: readonly string[];
  open: string | undefined;
  onTick: (version: string) => void;
  onOpen: (version: string) => void;
  onChange: () => Promise<void>;
}

function Versions({ model, versions, ticked, open, onTick, onOpen, onChange }: VersionsProps): ReactElement {
  const sources = versions.map((version) => sourceOf(version).run);
  const found = useQueries({ queries: sources.slice(0, SCORED).map((run) => ({ ...runQuery(run ?? ""), enabled: run !== null, staleTime: 60_000 })) });
  const scores = scoresOf(found.map(({ data }) => new Map((data?.metrics ?? []).map((metric) => [metric.key, metric.last]))), 2);
  const isStaged = versions.some((version) => version.current_stage !== "None");
  if (versions.length === 0) {
    return <p className="faint" style={{ padding: 12 }}>This model has no version yet.</p>;
  }
  return (
    <table className="plain">
      <thead>
        <tr>
          <th style={{ width: 28 }} aria-label="Select" />
          <th>Version</th>
          <th>State</th>
          <th>Aliases</th>
          {scores.map(({ name }) => (
            <th key={name} className="num wide-only clip" style={{ maxWidth: 120 }} title={name}>
              {name}
            </th>
          ))}
          {isStaged && <th className="wide-only">Stage</th>}
          <th>Run</th>
          <th className="wide-only">Registered</th>
        </tr>
      </thead>
      <tbody>
        {versions.map((version, row) => {
          const { run } = sourceOf(version);
          const name = found[row]?.data?.run.info.run_name;
          return (
            <tr key={version.version} className={version.version === open ? "picked" : ""}>
              <td>
                <input type="checkbox" className="tick" aria-label={`Select version ${version.version}`} checked={ticked.includes(version.version)} onChange={() => onTick(version.version)} />
              </td>
              <td>
                <button type="button" className="link-button" onClick={() => onOpen(version.version)}>
                  Version {version.version}
                </button>
              </td>
              <td>
                <StateBadge status={version.status} />
              </td>
              <td>
                <AliasEditor model={model.name} version={version.version} aliases={(model.aliases ?? []).filter((one) => one.version === version.version).map((one) => one.alias)} known={model.aliases ?? []} onChange={onChange} />
              </td>
              {scores.map((score) => (
                <td key={score.name} className={`num wide-only${score.best === row ? " tone-green" : ""}`} title={score.best === row ? `the best ${score.name}` : ""}>
                  {score.best === row ? <b>{short(score.values[row])}</b> : short(score.values[row])}
                </td>
              ))}
              {isStaged && <td className="muted wide-only">{version.current_stage === "None" ? "—" : version.current_stage}</td>}
              <td className="clip" style={{ maxWidth: 110 }}>
                {run === null ? (
                  <span className="faint">—</span>
                ) : (
                  <Link to="/app/runs/$runId" params={{ runId: run }} search={{}}>
                    {name ?? <code>{run.slice(0, 8)}</code>}
                  </Link>
                )}
              </td>
              <td className="muted nowrap wide-only">
                <Ago ms={version.creation_timestamp} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
