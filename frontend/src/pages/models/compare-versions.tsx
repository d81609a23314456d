/** Versions of a model side by side, by the runs they came from. */
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { sourceOf } from "../../api/models";
import { runQuery } from "../../api/runs";
import type { ModelVersion } from "../../api/wire";
import { compareMaps, standOut, type Row } from "../../lib/diff";
import { short } from "../../lib/format";
import { isSystem } from "../../lib/metric-names";
import { tagMap } from "../../lib/run-facts";
import { joinList } from "../../lib/view";

export function CompareVersions({ versions }: { versions: readonly ModelVersion[] }): ReactElement {
  const sources = versions.map(sourceOf);
  const found = useQueries({ queries: sources.map(({ run }) => ({ ...runQuery(run ?? ""), enabled: run !== null })) });
  const params = compareMaps(found.map(({ data }) => tagMap(data?.run.data.params))).filter((row) => row.differs);
  const metrics = compareMaps(found.map(({ data }) => new Map((data?.metrics ?? []).filter((metric) => !isSystem(metric.key)).map((metric) => [metric.key, short(metric.last)] as const))));
  const runs = sources.flatMap(({ run }) => (run === null ? [] : [run]));
  return (
    <section className="card" aria-label="Compared versions">
      <div className="card-head">
        <h2 className="grow">Compared versions</h2>
        {runs.length > 1 && (
          <Link className="btn small" to="/app/compare" search={{ runs: joinList(runs) }}>
            Compare their runs
          </Link>
        )}
      </div>
      <div style={{ overflow: "auto" }}>
        <table className="plain">
          <thead>
            <tr>
              <th aria-label="Name" />
              {versions.map((version) => (
                <th key={version.version}>Version {version.version}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            <Section title="Metrics" rows={metrics} versions={versions} mark={false} />
            <Section title="Parameters that differ" rows={params} versions={versions} mark />
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Section({ title, rows, versions, mark }: { title: string; rows: readonly Row[]; versions: readonly ModelVersion[]; mark: boolean }): ReactElement {
  return (
    <>
      <tr>
        <td colSpan={versions.length + 1} className="menu-head">
          {title}
        </td>
      </tr>
      {rows.map((row) => (
        <tr key={row.key}>
          <td className="muted">{row.key}</td>
          {row.values.map((value, at) => (
            <td key={versions[at]?.version} style={mark && standOut(row.values)[at] === true ? { background: "var(--mark)" } : undefined}>
              {value ?? "—"}
            </td>
          ))}
        </tr>
      ))}
    </>
  );
}
