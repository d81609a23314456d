/** One data set: samples of a version, counts by class, what changed, who used it. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import type { ReactElement } from "react";

import "./data.css";
import { dataSetQuery, type DataVersion } from "../../api/data";
import { bytes, count, grouped } from "../../lib/format";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Ago, Copy, ErrorCard, PageHead, Segments, Skeleton, YardLine } from "../../ui/parts";
import { Changes } from "./changes";
import { Samples } from "./samples";
import { Users } from "./users";

const TABS = [
  ["preview", "Preview"],
  ["classes", "Classes"],
  ["changes", "Changes"],
  ["users", "Users"],
] as const;
type Tab = (typeof TABS)[number][0];

export function DataSetPage(): ReactElement {
  const { name } = useParams({ from: "/app/data/$name" });
  const found = useQuery(dataSetQuery(name));
  if (found.error !== null) {
    return (
      <div className="page-body">
        <ErrorCard title={`The data set ${name} could not be read`} error={found.error} retry={() => void found.refetch()} />
        <div>
          <Link className="btn" to="/app/data" search={{}}>
            All data sets
          </Link>
        </div>
      </div>
    );
  }
  return found.data === undefined ? <Skeleton /> : <Loaded name={name} versions={found.data.versions} />;
}

function Loaded({ name, versions }: { name: string; versions: readonly DataVersion[] }): ReactElement {
  const search = useSearch({ from: "/app/data/$name" });
  const navigate = useNavigate();
  const shown = versions.find((one) => `v${one.version}` === search.version) ?? versions[0];
  const tab = TABS.find(([key]) => key === search.tab)?.[0] ?? "preview";
  const set = (change: Record<string, string>): void =>
    void navigate({ to: "/app/data/$name", params: { name }, search: { ...search, ...change }, replace: true });
  if (shown === undefined) {
    return <Skeleton />;
  }
  return (
    <>
      <PageHead
        title={
          <>
            <Icon name="data" />
            {name}
          </>
        }
        facts={<Facts version={shown} />}
      >
        <label className="row">
          <span className="muted">Version</span>
          <select className="field" aria-label="Version" value={`v${shown.version}`} onChange={(event) => set({ version: event.target.value })}>
            {versions.map((one) => (
              <option key={one.version} value={`v${one.version}`}>
                v{one.version}
              </option>
            ))}
          </select>
        </label>
      </PageHead>
      <div className="page-body">
        <div className="row wrap">
          <Segments<Tab> label="What is shown" value={tab} options={TABS} onChange={(next) => set({ tab: next })} />
        </div>
        {tab === "preview" && <Samples version={shown} ofClass={search.class ?? ""} onClass={(one) => set({ class: one })} />}
        {tab === "classes" && <Classes version={shown} onOpen={(one) => set({ tab: "preview", class: one })} />}
        {tab === "changes" && <Changes versions={versions} shown={shown} old={search.old ?? ""} onOld={(one) => set({ old: one })} />}
        {tab === "users" && <Users version={shown} />}
        <YardLine line={yard.submitData(`${name}@v${shown.version}`)} />
      </div>
    </>
  );
}

function Facts({ version }: { version: DataVersion }): ReactElement {
  return (
    <>
      <span>v{version.version}</span>
      <span>{count(version.files, "file")}</span>
      <span>{bytes(version.size_bytes)}</span>
      <span>{version.layout}</span>
      <span>
        by {version.user} <Ago ms={version.created_ms} />
      </span>
      <span>
        used <Ago ms={version.used_ms} />
      </span>
      <span title={version.digest}>
        sha256:{version.digest.slice(0, 12)} <Copy text={version.digest} label="Copy the digest" />
      </span>
    </>
  );
}

function Classes({ version, onOpen }: { version: DataVersion; onOpen: (name: string) => void }): ReactElement {
  const splits = Object.keys(version.classes);
  const names = [...new Set(splits.flatMap((split) => Object.keys(version.classes[split] ?? {})))].sort();
  const most = Math.max(1, ...splits.flatMap((split) => Object.values(version.classes[split] ?? {})));
  if (names.length === 0) {
    return (
      <div className="empty">
        <h2>No classes</h2>
        <p className="muted">Files that lie in a folder per class are counted: add them with --layout imagefolder.</p>
      </div>
    );
  }
  return (
    <section className="card" aria-label="Files by class">
      <table className="plain">
        <thead>
          <tr>
            <th>Class</th>
            {splits.map((split) => (
              <th key={split}>{split === "" ? "Files" : split}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <td>
                <button type="button" className="link-button" onClick={() => onOpen(name)}>
                  {name}
                </button>
              </td>
              {splits.map((split) => (
                <td key={split} className="nowrap">
                  <span className="class-bar" style={{ width: (80 * (version.classes[split]?.[name] ?? 0)) / most }} />{" "}
                  {grouped(version.classes[split]?.[name] ?? 0)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
