/** The further tabs of a run: artifacts, logs, events. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { filesQuery, textQuery } from "../../api/artifacts";
import { eventsQuery } from "../../api/events";
import type { WholeRun } from "../../api/runs";
import { RegisterDialog } from "../../features/actions/register-dialog";
import { ArtifactBrowser } from "../../features/artifacts/browser";
import { Lines } from "../../features/artifacts/lines";
import { EventList } from "../../features/events/event-list";
import { baseName } from "../../lib/files";
import { isLive } from "../../lib/states";
import { yard } from "../../lib/yard-line";
import { ErrorCard, Skeleton, YardLine } from "../../ui/parts";

export function ArtifactsTab({ whole, path, onPath }: { whole: WholeRun; path: string; onPath: (path: string) => void }): ReactElement {
  const [registering, setRegistering] = useState<string | null>(null);
  const { info } = whole.run;
  return (
    <>
      <ArtifactBrowser
        run={info.run_id}
        artifactUri={info.artifact_uri}
        path={path}
        onPath={onPath}
        onRegister={setRegistering}
      />
      {registering !== null && <RegisterDialog run={info.run_id} path={registering} onClose={() => setRegistering(null)} />}
    </>
  );
}

/** Logs: what a job printed, or the log files that a run left among its artifacts. */
export function LogsTab({ whole }: { whole: WholeRun }): ReactElement {
  const { info } = whole.run;
  const root = useQuery(filesQuery(info.run_id, ""));
  const folder = useQuery({ ...filesQuery(info.run_id, "logs"), enabled: root.data?.some((file) => file.path === "logs" && file.is_dir) ?? false });
  const logs = [...(root.data ?? []), ...(folder.data ?? [])].filter((file) => !file.is_dir && /\.(log|out|err)$/.test(file.path));
  const [chosen, setChosen] = useState<string | null>(null);
  const path = chosen ?? logs[0]?.path ?? null;
  const text = useQuery({
    ...textQuery(info.artifact_uri, path ?? ""),
    enabled: path !== null,
    refetchInterval: isLive(info.status) ? 3000 : false,
  });
  if (root.error !== null) {
    return <ErrorCard title="The logs could not be found" error={root.error} retry={() => void root.refetch()} />;
  }
  if (root.data === undefined) {
    return <Skeleton />;
  }
  if (path === null) {
    return (
      <div className="empty">
        <h2>No log</h2>
        <p className="muted">
          Output is collected for jobs of the queue. This run was started by hand and left no <code>.log</code> file among its artifacts; one kept with <code>mlflow.log_artifact(&quot;train.log&quot;, &quot;logs&quot;)</code> is shown here.
        </p>
      </div>
    );
  }
  return (
    <div className="page-body">
      {logs.length > 1 && (
        <select className="field" aria-label="Log" value={path} onChange={(event) => setChosen(event.target.value)}>
          {logs.map((file) => (
            <option key={file.path} value={file.path}>
              {baseName(file.path)}
            </option>
          ))}
        </select>
      )}
      {text.error !== null && <ErrorCard title="The log could not be read" error={text.error} retry={() => void text.refetch()} />}
      {text.data !== undefined && <Lines text={text.data.text} follow={isLive(info.status)} />}
    </div>
  );
}

export function EventsTab({ run }: { run: string }): ReactElement {
  const events = useQuery(eventsQuery({ limit: 300, subject: "run", subject_id: run }));
  return (
    <div className="page-body">
      {events.error !== null && <ErrorCard title="The events could not be read" error={events.error} retry={() => void events.refetch()} />}
      {events.data === undefined ? <Skeleton /> : <EventList events={events.data} fields />}
      <YardLine line={yard.events(run)} />
    </div>
  );
}
