/** The job of a run, as the run's page shows it: a strip of numbers, the log, the timeline with attempts. */
import { Link } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import type { WholeRun } from "../../api/runs";
import { isSystem } from "../../lib/metric-names";
import { leadMetric } from "../../lib/job-lanes";
import { isOver } from "../../lib/job-states";
import type { Range } from "../../lib/range";
import { Icon } from "../../ui/icon";
import { ErrorCard, Skeleton, useNow } from "../../ui/parts";
import { JobLanes } from "../lanes/job-lanes";
import { WhyCard } from "../why-card/why-card";
import { JobActions } from "./actions";
import { Attempts } from "./attempts";
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

/** What the job printed. */
export function RunJobLog({ job }: { job: string }): ReactElement {
  const { detail, error, retry } = useJob(job);
  const [choice, setChoice] = useState<{ attempt?: number; rank?: number }>({});
  return (
    <div className="page-body">
      {error !== null && <ErrorCard title="The log could not be read" error={error} retry={retry} />}
      {detail === undefined ? <Skeleton /> : <LogPane detail={detail} {...choice} onChoose={(next) => setChoice({ ...choice, ...next })} />}
    </div>
  );
}

/** The job's life over the loss curve; a span chosen on it zooms the charts of the run. */
export function RunJobTimeline({ job, whole, onSpan, onLog }: { job: string; whole: WholeRun; onSpan: (span: Range) => void; onLog: () => void }): ReactElement {
  const { detail, error, retry, events } = useJob(job);
  const now = useNow(detail !== undefined && isOver(detail.job) ? 60_000 : 2000);
  return (
    <div className="page-body">
      {error !== null && <ErrorCard title="The job could not be read" error={error} retry={retry} />}
      {detail === undefined ? (
        <Skeleton />
      ) : (
        <>
          <section className="card" aria-label="Timeline">
            <JobLanes detail={detail} events={events} now={now} span={null} onSpan={(span) => span !== null && onSpan(span)} metric={leadMetric(whole.metrics.map((metric) => metric.key))} />
          </section>
          <section className="card" aria-label="Attempts">
            <div className="card-head">
              <h2>Attempts</h2>
            </div>
            <Attempts attempts={detail.attempts} onLog={onLog} />
          </section>
          <p className="muted">Drag over a stretch of time to see every chart in it.</p>
        </>
      )}
    </div>
  );
}
