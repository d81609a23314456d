/** The log of a whole job: its attempts and ranks to choose from. */
import type { ReactElement } from "react";

import type { JobDetail } from "../../api/jobs";
import { isOver } from "../../lib/job-states";
import type { LogMoment } from "../../lib/log-moment";
import { JobLog } from "../job-log/job-log";

interface Props {
  detail: JobDetail;
  attempt?: number | undefined;
  rank?: number | undefined;
  /** the moment to show */
  moment?: LogMoment | undefined;
  onChoose: (choice: { attempt?: number; rank?: number }) => void;
}

export function LogPane({ detail, attempt, rank, moment, onChoose }: Props): ReactElement {
  const { job, attempts } = detail;
  return (
    <JobLog
      job={job.job_id}
      attempts={attempts.length}
      ranks={attempts.map((one) => one.ranks)}
      sizes={attempts.map((one) => one.log_bytes)}
      ended={attempts.map((one) => one.ended_ms !== null)}
      over={isOver(job)}
      attempt={attempt}
      rank={rank}
      moment={moment}
      onChoose={onChoose}
    />
  );
}
