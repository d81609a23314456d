/** A job in a strip of numbers: how long it waited and ran, what it used, how safe its work is. */
import type { ReactElement } from "react";

import type { JobDetail } from "../../api/jobs";
import { ago, bytes, duration, exact, grouped, short } from "../../lib/format";
import { finishAt } from "../../lib/job-lanes";
import { isGoing } from "../../lib/job-states";
import { useNow } from "../../ui/parts";
import { moment } from "./parts";

interface Spans {
  waited: number;
  wall: number | null;
  hours: number;
}

/** How long it waited and ran, and what it used, up to now. */
export function spansOf({ job, attempts, waited_ms }: Pick<JobDetail, "job" | "attempts" | "waited_ms">, now: number): Spans {
  const first = job.state === "queued" && job.started_ms === null;
  const end = job.ended_ms ?? now;
  return {
    waited: first ? now - job.submitted_ms : waited_ms,
    wall: job.started_ms === null ? null : end - job.started_ms,
    hours: attempts.reduce((sum, one) => sum + one.gpu_seconds, 0) / 3600,
  };
}

/** `reached` is the furthest step the run has logged, where that is known. */
export function JobNumbers({ detail, total, reached = 0 }: { detail: JobDetail; total: number | null; reached?: number }): ReactElement {
  const now = useNow(1000);
  const { job, attempts, checkpoints } = detail;
  const { waited, wall, hours } = spansOf(detail, now);
  const last = checkpoints[0];
  return (
    <dl className="job-numbers">
      <Progress detail={detail} total={total} reached={reached} now={now} />
      <Number name="Queue wait" value={duration(waited)} />
      <Number name="Wall" value={duration(wall)} />
      <Number name="GPU-hours" value={hours === 0 ? "0" : short(hours)} title={`${hours} GPU-hours over all attempts`} />
      <Number name="Restarts" value={String(Math.max(0, attempts.length - 1))} />
      <Number
        name="Checkpoint"
        value={last === undefined ? "none" : ago(last.created_ms, now)}
        title={last === undefined ? "Save with trackyard.checkpoint and a lost node costs minutes, not days" : `step ${last.step}, ${bytes(last.size_bytes)}, ${exact(last.created_ms)}`}
      />
      {job.on.length > 0 && <Number name={job.on.length === 1 ? "Node" : "Nodes"} value={job.on.length > 3 ? `${job.on.slice(0, 3).join(", ")}, …` : job.on.join(", ")} title={job.on.join(", ")} />}
      {job.time_limit_seconds !== null && <Number name="Time limit" value={duration(job.time_limit_seconds * 1000)} />}
    </dl>
  );
}

function Progress({ detail: { job, attempts }, total, reached, now }: { detail: JobDetail; total: number | null; reached: number; now: number }): ReactElement | null {
  const step = Math.max(reached, job.step ?? 0, ...attempts.map((one) => one.step ?? 0));
  const live = attempts[attempts.length - 1];
  const finish = isGoing(job) && live !== undefined ? finishAt(live, step, total, now) : null;
  if (step === 0 && total === null) {
    return null;
  }
  return (
    <div>
      <dt>Step</dt>
      <dd>
        {grouped(step)}
        {total !== null && (
          <>
            <span className="muted"> / {grouped(total)}</span> <progress max={total} value={Math.min(total, step + 1)} aria-label="Progress" />
          </>
        )}
        {finish !== null && (
          <span className="muted" title={exact(finish)}>
            {" "}
            ends ~{moment(finish, now)}
          </span>
        )}
      </dd>
    </div>
  );
}

function Number({ name, value, title }: { name: string; value: string; title?: string | undefined }): ReactElement {
  return (
    <div title={title}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
