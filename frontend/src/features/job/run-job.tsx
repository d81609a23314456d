/** The job of a run, as the run's page shows it: a strip of numbers and the log. */
import { Link } from "@tanstack/react-router";
import { useMemo, useState, type ReactElement } from "react";

import type { WholeRun } from "../../api/runs";
import { isSystem } from "../../lib/metric-names";
import { Icon } from "../../ui/icon";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { WhyCard } from "../why-card/why-card";
import { JobActions } from "./actions";
import { LogPane } from "./log-pane";
import { JobNumbers } from "./numbers";
import { JobBadge } from "./parts";
import { useJob, useJobNames } from "./use-job";

/** The tag by which a run knows its job. */
export const JOB_TAG = "yard.job";

/** How the job of this run stands, with the way to its page. */
export function RunJobStrip({ job: id, whole }: { job: string; whole: WholeRun }): ReactElement | null {
  const { detail } = useJob(id);
  const waits = detail?.job.state === "queued";
  const nameOf = useJobNames(waits);
  if (detail === undefined) {
    return null;
  }
  const { job } = detail;
  return (
    <section aria-label="Job">
      <div className="row wrap run-job">
        <Link className="btn small" to="/app/jobs/$jobId" params={{ jobId: job.job_id }} search={{}}>
          <Icon name="queue" />
          Job
        </Link>
        <JobBadge job={job} />
        <JobNumbers detail={detail} total={totalOf(whole)} reached={reachedOf(whole)} />
        <span className="grow" />
        <JobActions job={job} compact />
      </div>
      {waits && (
        <div style={{ padding: "0 16px 12px" }}>
          <WhyCard job={job} reasons={detail.reasons} eta={detail.eta} position={detail.position} waiting={detail.waiting} nameOf={nameOf} />
        </div>
      )}
    </section>
  );
}

/** The furthest step of the run's own metrics, and the step it means to reach. */
const reachedOf = (whole: WholeRun): number => whole.metrics.filter((metric) => !isSystem(metric.key)).reduce((most, metric) => Math.max(most, metric.step), 0);
const totalOf = (whole: WholeRun): number | null => {
  const total = Number((whole.run.data.params ?? []).find((param) => param.key === "max_steps" || param.key === "total_steps")?.value ?? Number.NaN);
  return Number.isFinite(total) && total > 0 ? total : null;
};

/** What the job printed; from a moment on, where the address names one. */
export function RunJobLog({ job, attempt = 0, at = 0 }: { job: string; attempt?: number; at?: number }): ReactElement {
  const { detail, error, retry } = useJob(job);
  const [choice, setChoice] = useState<{ attempt?: number; rank?: number }>(attempt > 0 ? { attempt } : {});
  const held = detail?.attempts.find((one) => one.number === attempt);
  const from = held?.started_ms ?? held?.admitted_ms ?? 0;
  const to = held?.ended_ms ?? held?.seen_ms ?? at;
  const shown = at > 0 && held !== undefined && choice.attempt === attempt;
  const moment = useMemo(() => (shown ? { at, from, to } : undefined), [shown, at, from, to]);
  return (
    <div className="page-body">
      {error !== null && <ErrorCard title="The log could not be read" error={error} retry={retry} />}
      {detail === undefined ? <Skeleton /> : <LogPane detail={detail} {...choice} moment={moment} onChoose={(next) => setChoice({ ...choice, ...next })} />}
    </div>
  );
}
