/** The traces of a run: a list, and the chosen one as a waterfall of its spans. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { spansQuery, tracesQuery, type Assessment, type Trace } from "../../api/traces";
import { duration, exact } from "../../lib/format";
import { waterfall, type Row } from "../../lib/trace-spans";
import { ErrorCard, Skeleton, StateBadge } from "../../ui/parts";
import "./traces.css";

/** The words of runs for the states of traces, so that both look alike. */
const STATES: Record<string, string> = { OK: "FINISHED", ERROR: "FAILED", IN_PROGRESS: "RUNNING" };

export function TracesTab({ experiment, run }: { experiment: string; run: string }): ReactElement {
  const { data, error, refetch } = useQuery(tracesQuery(experiment, run));
  const [chosen, setChosen] = useState<string | null>(null);
  if (error !== null) {
    return <ErrorCard title="The traces could not be read" error={error} retry={() => void refetch()} />;
  }
  if (data === undefined) {
    return <Skeleton />;
  }
  if (data.length === 0) {
    return (
      <div className="empty">
        <h2>No traces</h2>
        <p className="muted">
          Calls of functions under <code>@mlflow.trace</code>, or of libraries that MLflow traces, are listed here when they are made in the run.
        </p>
      </div>
    );
  }
  return (
    <div className="trace-list">
      <table className="plain">
        <thead>
          <tr>
            <th>Trace</th>
            <th>State</th>
            <th>Began</th>
            <th>Took</th>
            <th>Request</th>
            <th>Response</th>
          </tr>
        </thead>
        <tbody>
          {data.map((trace) => (
            <TraceRows key={trace.trace_id} trace={trace} isOpen={trace.trace_id === chosen} onToggle={() => setChosen(trace.trace_id === chosen ? null : trace.trace_id)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TraceRows({ trace, isOpen, onToggle }: { trace: Trace; isOpen: boolean; onToggle: () => void }): ReactElement {
  return (
    <>
      <tr>
        <td>
          <button type="button" className="btn small" aria-expanded={isOpen} onClick={onToggle}>
            {trace.tags?.["mlflow.traceName"] ?? trace.trace_id.slice(0, 11)}
          </button>
        </td>
        <td>
          <StateBadge status={STATES[trace.state] ?? trace.state} />
        </td>
        <td>{exact(Date.parse(trace.request_time))}</td>
        <td>{trace.execution_duration === undefined ? "—" : duration(Number.parseFloat(trace.execution_duration) * 1000)}</td>
        <td className="clip mono">{trace.request_preview ?? ""}</td>
        <td className="clip mono">{trace.response_preview ?? ""}</td>
      </tr>
      {isOpen && (
        <tr className="opened">
          <td colSpan={6}>
            <Waterfall trace={trace} />
          </td>
        </tr>
      )}
    </>
  );
}

function Waterfall({ trace }: { trace: Trace }): ReactElement {
  const { data, error, refetch } = useQuery(spansQuery(trace));
  if (error !== null) {
    return <ErrorCard title="The spans could not be read" error={error} retry={() => void refetch()} />;
  }
  if (data === undefined) {
    return <Skeleton />;
  }
  return (
    <>
      <div className="waterfall" role="list" aria-label="Spans">
        {waterfall(data).map((row) => (
          <SpanRow key={row.id} row={row} />
        ))}
        {data.length === 0 && <p className="muted">Its client has sent no spans yet.</p>}
      </div>
      {(trace.assessments ?? []).map((one) => (
        <AssessmentLine key={one.assessment_id} one={one} />
      ))}
    </>
  );
}

function SpanRow({ row }: { row: Row }): ReactElement {
  const [isOpen, setOpen] = useState(false);
  return (
    <div role="listitem">
      <button type="button" className="span" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className="clip" style={{ paddingLeft: row.depth * 14 }}>
          {row.name} {row.kind !== "" && row.kind !== "UNKNOWN" && <span className="muted">{row.kind.toLowerCase()}</span>}
        </span>
        <span className="lane">
          <span className={row.failed ? "bar failed" : "bar"} style={{ left: `${row.left * 100}%`, width: `${row.width * 100}%` }} />
        </span>
        <span className="took muted">{row.length < 1000 ? `${row.length.toFixed(row.length < 10 ? 1 : 0)} ms` : duration(row.length)}</span>
      </button>
      {isOpen && (
        <dl className="facts">
          {row.message !== "" && <Fact name="Error" value={row.message} />}
          {row.attributes.map(([key, value]) => (
            <Fact key={key} name={key} value={value} />
          ))}
        </dl>
      )}
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }): ReactElement {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <pre>{value}</pre>
      </dd>
    </>
  );
}

function AssessmentLine({ one }: { one: Assessment }): ReactElement {
  const value = one.feedback?.value ?? one.expectation?.value ?? one.expectation?.serialized_value?.value;
  return (
    <p className={one.valid === false ? "muted" : undefined}>
      {one.feedback === undefined ? "Expected" : "Feedback"} {one.assessment_name}: {typeof value === "string" ? value : JSON.stringify(value)}
      {one.rationale !== undefined && <span className="muted"> — {one.rationale}</span>}
      {one.valid === false && " (overridden)"}
    </p>
  );
}
