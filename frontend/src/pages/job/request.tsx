/** What the job asked for, and the line that asks for it again. */
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import type { JobDetail } from "../../api/jobs";
import { bytes, duration } from "../../lib/format";
import { asks } from "../../lib/job-states";
import { formOf, readForm, submitLine } from "../../lib/submit-form";
import { Copy, YardLine } from "../../ui/parts";

export function Request({ detail }: { detail: JobDetail }): ReactElement {
  const { job, spec } = detail;
  const fields = readForm(formOf(detail)).fields;
  const env = Object.entries((spec.env ?? {}) as Record<string, string>);
  const pip = (spec.pip ?? []) as string[];
  const source = (spec.source ?? null) as { commit?: string; branch?: string | null; dirty?: boolean } | null;
  const rows: [string, string][] = [
    ["Asks for", asks(job)],
    ["CPUs", job.cpus === 0 ? "any" : String(job.cpus)],
    ["Memory", job.memory_bytes === 0 ? "any" : bytes(job.memory_bytes)],
    ["Team", job.team],
    ["Queue", job.queue],
    ["Priority", job.priority],
    ["Time limit", job.time_limit_seconds === null ? "none" : duration(job.time_limit_seconds * 1000)],
    ["Preemptible", job.preemptible ? "yes" : "no"],
    ["Retries", String((spec.retries as number | undefined) ?? 0)],
    ["Grace", duration(((spec.grace_seconds as number | undefined) ?? 30) * 1000)],
    ["Launcher", String((spec.launcher as string | undefined) ?? "plain")],
  ];
  return (
    <div className="page-body columns-2">
      <div className="stack">
        <section className="card">
          <div className="card-head">
            <h2 className="grow">Command</h2>
            <Copy text={job.command} label="Copy the command" />
          </div>
          <pre style={{ padding: 12, overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{job.command}</pre>
        </section>
        {env.length > 0 && (
          <section className="card">
            <div className="card-head">
              <h2>Variables</h2>
            </div>
            <table className="plain">
              <tbody>
                {env.map(([name, value]) => (
                  <tr key={name}>
                    <td className="mono muted">{name}</td>
                    <td className="mono" style={{ overflowWrap: "anywhere" }}>
                      {value}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
        {pip.length > 0 && (
          <section className="card">
            <div className="card-head">
              <h2>Pip</h2>
            </div>
            <pre style={{ padding: 12 }}>{pip.join("\n")}</pre>
          </section>
        )}
        {fields !== null && <YardLine line={submitLine(fields)} />}
        <div>
          <Link className="btn" to="/app/submit" search={{ from: job.job_id }}>
            Submit a copy
          </Link>
        </div>
      </div>
      <section className="card">
        <div className="card-head">
          <h2>Request</h2>
        </div>
        <dl className="env-grid">
          {rows.map(([name, value]) => (
            <Row key={name} name={name} value={value} />
          ))}
          {source !== null && source.commit !== "" && <Row name="Git" value={`${(source.commit ?? "").slice(0, 12)}${source.branch ? ` on ${source.branch}` : ""}${source.dirty === true ? ", with changes" : ""}`} />}
          {detail.waits_for.length > 0 && <Row name="After" value={detail.waits_for.join(", ")} />}
        </dl>
      </section>
    </div>
  );
}

function Row({ name, value }: { name: string; value: string }): ReactElement {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
