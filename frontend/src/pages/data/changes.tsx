/** What changed between two versions of a data set. */
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { diffQuery, type DataDiff, type DataVersion } from "../../api/data";
import { bytes, grouped } from "../../lib/format";
import { yard } from "../../lib/yard-line";
import { ErrorCard, Skeleton, YardLine } from "../../ui/parts";

const SIGNS: Readonly<Record<string, string>> = { added: "+", removed: "−", changed: "~", moved: "→" };

export function Changes(props: {
  versions: readonly DataVersion[];
  shown: DataVersion;
  old: string;
  onOld: (version: string) => void;
}): ReactElement {
  const others = props.versions.filter((one) => one.version !== props.shown.version);
  const before = others.find((one) => one.version < props.shown.version) ?? others[0];
  const old = others.find((one) => `v${one.version}` === props.old) ?? before;
  if (old === undefined) {
    return (
      <div className="empty">
        <h2>One version so far</h2>
        <p className="muted">Add the folder again when it has changed: only what is new is sent.</p>
      </div>
    );
  }
  return (
    <section className="card" aria-label="Changes">
      <div className="card-head">
        <h2>Changes to v{props.shown.version} since</h2>
        <select className="field" aria-label="Compared with" value={`v${old.version}`} onChange={(event) => props.onOld(event.target.value)}>
          {others.map((one) => (
            <option key={one.version} value={`v${one.version}`}>
              v{one.version}
            </option>
          ))}
        </select>
      </div>
      <Difference name={props.shown.name} old={old.version} now={props.shown.version} />
    </section>
  );
}

function Difference({ name, old, now }: { name: string; old: number; now: number }): ReactElement {
  const diff = useQuery(diffQuery(name, old, now));
  if (diff.error !== null) {
    return <ErrorCard title="The versions could not be compared" error={diff.error} retry={() => void diff.refetch()} />;
  }
  return diff.data === undefined ? (
    <Skeleton />
  ) : (
    <>
      <p style={{ padding: "8px 12px" }}>{sentence(diff.data)}</p>
      <table className="plain">
        <tbody>
          {diff.data.changes.map((change) => (
            <tr key={`${change.what} ${change.path}`}>
              <td className="nowrap">
                {SIGNS[change.what]} {change.what}
              </td>
              <td>
                {change.path}
                {change.old_path !== "" && <span className="muted"> was {change.old_path}</span>}
              </td>
              <td className="nowrap muted">
                {change.what === "changed" ? `${bytes(change.old_size)} → ${bytes(change.size)}` : bytes(change.size)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {diff.data.is_cut && <p className="muted" style={{ padding: 12 }}>The first 1,000 are shown.</p>}
      <YardLine line={yard.data("diff", `${name}@v${old}`, `v${now}`)} />
    </>
  );
}

/** The difference in one sentence. */
export function sentence(diff: DataDiff): string {
  const parts = (["added", "removed", "changed", "moved"] as const).map((what) => `${grouped(diff[what])} ${what}`);
  return `${parts.join(", ")}, ${grouped(diff.same)} the same`;
}
