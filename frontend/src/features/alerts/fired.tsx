/** What fired on a job or run, on its page; nothing where nothing did. */
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { incidentsQuery } from "../../api/alerts";
import { IncidentList } from "./incident-list";

export function Fired({ job, run }: { job?: string; run?: string }): ReactElement | null {
  const wish = { ...(job === undefined ? {} : { job }), ...(run === undefined ? {} : { run }) };
  const { data } = useQuery(incidentsQuery(wish));
  if (data === undefined || data.length === 0) {
    return null;
  }
  return (
    <section className="card" aria-label="Alerts" style={{ margin: "0 16px 12px" }}>
      <IncidentList incidents={data.slice(0, 10)} subject={false} />
    </section>
  );
}
