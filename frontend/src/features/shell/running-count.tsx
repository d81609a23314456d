/** How many runs are going and jobs are waiting, in the bar of every page. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { jobsQuery } from "../../api/jobs";
import { experimentsQuery } from "../../api/runs";
import { Icon } from "../../ui/icon";

/** The two counts side by side. */
export function RunningCount(): ReactElement {
  return (
    <>
      <Running />
      <Waiting />
    </>
  );
}

function Waiting(): ReactElement | null {
  const { data } = useQuery(jobsQuery({ state: ["queued"], limit: 1 }));
  const waiting = data?.counts.queued ?? 0;
  return waiting === 0 ? null : (
    <Link className="running-count state tone-amber" to="/app/queue" search={{}} aria-label={`${waiting} waiting`}>
      <Icon name="clock" />
      {waiting} <span className="wide-only">waiting</span>
    </Link>
  );
}

function Running(): ReactElement | null {
  const { data } = useQuery(experimentsQuery());
  if (data === undefined) {
    return null;
  }
  const running = data.reduce((sum, one) => sum + one.running, 0);
  const exp = data.filter((one) => one.running > 0).map((one) => one.experiment_id);
  if (running === 0) {
    return <span className="faint running-count">nothing running</span>;
  }
  return (
    <Link
      className="running-count state tone-blue"
      aria-label={`${running} running`}
      to="/app/runs"
      search={{ exp: exp.join(","), filter: "attributes.status = 'RUNNING'" }}
    >
      <Icon name="ring" />
      {running} <span className="wide-only">running</span>
    </Link>
  );
}
