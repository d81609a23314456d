/** Who used a version: runs, jobs and the models that came of them, and the nodes that hold it. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { usersQuery, type DataVersion } from "../../api/data";
import { yard } from "../../lib/yard-line";
import { Ago, ErrorCard, Skeleton, YardLine } from "../../ui/parts";

export function Users({ version }: { version: DataVersion }): ReactElement {
  const found = useQuery(usersQuery(version.name, version.version));
  if (found.error !== null) {
    return <ErrorCard title="Its users could not be read" error={found.error} retry={() => void found.refetch()} />;
  }
  if (found.data === undefined) {
    return <Skeleton />;
  }
  const { uses, nodes } = found.data;
  return (
    <section className="card" aria-label="Users">
      <div className="card-head">
        <h2>Used by</h2>
        <span className="muted">{nodes.length === 0 ? "no node holds a copy" : `copies on ${nodes.join(", ")}`}</span>
      </div>
      {uses.length === 0 ? (
        <p className="muted" style={{ padding: 12 }}>
          No run has used this version yet.
        </p>
      ) : (
        <table className="plain">
          <thead>
            <tr>
              <th>Run</th>
              <th>Job</th>
              <th>Models</th>
              <th>When</th>
            </tr>
          </thead>
          <tbody>
            {uses.map((use) => (
              <tr key={use.run_id}>
                <td>
                  <Link to="/app/runs/$runId" params={{ runId: use.run_id }} search={{}}>
                    {use.run_name === "" ? use.run_id : use.run_name}
                  </Link>
                </td>
                <td>
                  {use.job_id === "" ? (
                    "—"
                  ) : (
                    <Link to="/app/jobs/$jobId" params={{ jobId: use.job_id }} search={{}}>
                      {use.job_id}
                    </Link>
                  )}
                </td>
                <td>{use.models.length === 0 ? "—" : use.models.join(", ")}</td>
                <td className="muted nowrap">
                  <Ago ms={use.created_ms} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <YardLine line={yard.data("users", `${version.name}@v${version.version}`)} />
    </section>
  );
}
