/** The attempts of a job: how each ended, where it ran, when, and in which environment. */
import { Fragment, useState, type ReactElement } from "react";

import type { Attempt } from "../../api/jobs";
import { bytes, clock, duration, exact, grouped } from "../../lib/format";
import { lostSteps } from "../../lib/job-lanes";
import { causeWord } from "../../lib/job-states";
import { Icon } from "../../ui/icon";
import { Copy, useNow } from "../../ui/parts";
import { WordBadge } from "./parts";

/** Which GPUs an attempt held: g01 0,1. */
export function gpusOf(attempt: Pick<Attempt, "placement">): string {
  return attempt.placement
    .filter((held) => held.gpus.length > 0)
    .map((held) => `${attempt.placement.length > 1 ? `${held.node} ` : ""}${held.gpus.join(",")}${held.share < 1 ? ` (${held.share} of it)` : ""}`)
    .join(" · ");
}

/** What differs between the environments of two attempts, by name. */
export function environmentChange(now: Record<string, unknown>, before: Record<string, unknown> | undefined): string[] {
  if (before === undefined) {
    return [];
  }
  const names = new Set([...Object.keys(now), ...Object.keys(before)]);
  names.delete("digest");
  return [...names].filter((name) => JSON.stringify(now[name]) !== JSON.stringify(before[name])).sort();
}

export function Attempts({ attempts, onLog }: { attempts: readonly Attempt[]; onLog: (attempt: number) => void }): ReactElement {
  const [open, setOpen] = useState<number | null>(null);
  const now = useNow(1000);
  if (attempts.length === 0) {
    return <p className="faint" style={{ padding: 12 }}>No attempts yet: the job is waiting in the queue.</p>;
  }
  return (
    <div className="scroll-x">
      <table className="plain attempts">
        <thead>
          <tr>
            <th>#</th>
            <th>State</th>
            <th>How it ended</th>
            <th>Node</th>
            <th>GPUs</th>
            <th>Began</th>
            <th className="num">Ran</th>
            <th className="num">Steps</th>
            <th>Environment</th>
            <th aria-label="Log" />
          </tr>
        </thead>
        <tbody>
          {attempts.toReversed().map((attempt) => {
            const before = attempts[attempt.number - 2];
            const changed = environmentChange(attempt.environment, before?.environment);
            return (
              <Fragment key={attempt.attempt_id}>
                <tr>
                  <td className="num">{attempt.number}</td>
                  <td>
                    <WordBadge word={attempt.state} />
                  </td>
                  <td style={{ minWidth: 200, maxWidth: 420 }}>
                    {attempt.ended_ms === null ? <span className="muted">{attempt.notes[attempt.notes.length - 1] ?? "—"}</span> : <b>{causeWord(attempt)}</b>}{" "}
                    <span className="muted">{attempt.sentence}</span>
                    {attempt.error_line !== null && <code className="attempt-error">{attempt.error_line}</code>}
                    {attempt.log_lost_bytes > 0 && <span className="attempt-error">{bytes(attempt.log_lost_bytes)} of its log were lost</span>}
                  </td>
                  <td>{attempt.nodes.join(", ")}</td>
                  <td>{gpusOf(attempt) || "—"}</td>
                  <td className="nowrap" title={exact(attempt.admitted_ms)}>
                    {clock(attempt.admitted_ms)}
                  </td>
                  <td className="num">{duration((attempt.ended_ms ?? now) - attempt.admitted_ms)}</td>
                  <td className="num nowrap">
                    {attempt.step === null ? "—" : `${attempt.resume_step === null ? 0 : grouped(attempt.resume_step)} → ${grouped(attempt.step)}`}
                    {lostSteps(attempt) !== "" && <div className="muted">{lostSteps(attempt)}</div>}
                  </td>
                  <td className="nowrap">
                    <button type="button" className="btn quiet small" aria-expanded={open === attempt.number} onClick={() => setOpen(open === attempt.number ? null : attempt.number)}>
                      {before === undefined ? "show" : changed.length === 0 ? "the same" : <span className="tone-amber">changed: {changed.join(", ")}</span>}
                      <Icon name={open === attempt.number ? "up" : "down"} />
                    </button>
                  </td>
                  <td>
                    <button type="button" className="btn small" onClick={() => onLog(attempt.number)}>
                      Log
                    </button>
                  </td>
                </tr>
                {open === attempt.number && (
                  <tr>
                    <td colSpan={10} style={{ padding: 0 }}>
                      <Environment attempt={attempt} />
                    </td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Environment({ attempt }: { attempt: Attempt }): ReactElement {
  const { environment } = attempt;
  const pip = (environment.pip ?? []) as string[];
  const nodes = (environment.nodes ?? {}) as Record<string, Record<string, string>>;
  const env = Object.keys((environment.env ?? {}) as Record<string, string>);
  return (
    <dl className="env-grid">
      <dt>Command</dt>
      <dd className="mono">{((environment.command ?? []) as string[]).join(" ")}</dd>
      <dt>Git commit</dt>
      <dd className="mono">{String(environment.commit ?? "") || "—"}</dd>
      <dt>Package</dt>
      <dd className="row mono" style={{ gap: 2 }}>
        {environment.package === "" || environment.package === undefined ? (
          "none"
        ) : (
          <>
            {String(environment.package as string).slice(0, 16)}
            <Copy text={String(environment.package as string)} />
          </>
        )}
      </dd>
      <dt>Pip</dt>
      <dd className="mono">{pip.length === 0 ? "as on the node" : pip.join(", ")}</dd>
      <dt>Variables</dt>
      <dd className="mono">{env.length === 0 ? "none of its own" : env.join(", ")}</dd>
      <dt>Nodes</dt>
      <dd>
        {Object.entries(nodes).map(([node, labels]) => (
          <div key={node}>
            <b>{node}</b> <span className="muted">{Object.entries(labels).map(([name, value]) => `${name} ${value}`).join(" · ")}</span>
          </div>
        ))}
      </dd>
      <dt>Peak memory</dt>
      <dd>{bytes(attempt.peak_memory_bytes)}</dd>
      {attempt.notes.length > 0 && (
        <>
          <dt>Notes</dt>
          <dd>{attempt.notes.join(" · ")}</dd>
        </>
      )}
    </dl>
  );
}
