/** The timeline of a run or its lineage: lanes over a chosen metric, one zoom with the charts, a click to the log. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, type ReactElement } from "react";

import type { JobDetail } from "../../api/jobs";
import { runLogbookQuery, type Logbook } from "../../api/logbook";
import type { WholeRun } from "../../api/runs";
import { leadMetric } from "../../lib/job-lanes";
import { attemptAt, endsOfLanes, lanesFrom } from "../../lib/logbook";
import type { Range } from "../../lib/range";
import { isLive } from "../../lib/states";
import { readView } from "../../lib/view";
import { ErrorCard, Skeleton, useNow } from "../../ui/parts";
import { Panel, type ChartRun, type ChartSettings } from "../chart/panel";
import { Attempts } from "../job/attempts";
import { LanesBody } from "../lanes/job-lanes";
import "../chart/chart.css";
import "../lanes/lanes.css";

type Words = Record<string, string>;

interface Props {
  whole: WholeRun;
  job: JobDetail | undefined;
  search: Words;
  onSearch: (change: Words) => void;
}

export function RunTimeline({ whole, job, search, onSearch }: Props): ReactElement {
  const { info } = whole.run;
  const lineage = search.lineage === "1";
  const book = useQuery({ ...runLogbookQuery(info.run_id, lineage), refetchInterval: isLive(info.status) ? 5000 : false });
  const names = whole.metrics.map((metric) => metric.key);
  const metric = names.find((name) => name === search.over) ?? leadMetric(names) ?? names[0] ?? null;
  const showLog = (at: number): void => {
    const attempt = job === undefined ? null : attemptAt(job.attempts, at);
    if (attempt !== null) {
      onSearch({ tab: "logs", attempt: String(attempt), at: String(Math.round(at)) });
    }
  };
  return (
    <div className="page-body">
      <div className="row wrap">
        <label className="row">
          <input type="checkbox" checked={lineage} onChange={(event) => onSearch({ lineage: event.target.checked ? "1" : "" })} />
          Lineage
        </label>
        {names.length > 0 && (
          <label className="row">
            Over
            <select className="field" aria-label="Metric under the lanes" value={metric ?? ""} onChange={(event) => onSearch({ over: event.target.value })}>
              {names.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <span className="grow" />
        <span className="muted">Drag over a stretch of time to see every chart in it{job === undefined ? "" : "; click for the log of that moment"}.</span>
      </div>
      {book.error !== null && <ErrorCard title="The timeline could not be read" error={book.error} retry={() => void book.refetch()} />}
      {book.data === undefined ? (
        <Skeleton />
      ) : (
        <section className="card" aria-label="Timeline">
          <Lanes book={book.data} metric={metric} search={search} onSearch={onSearch} onMoment={job === undefined ? undefined : showLog} />
        </section>
      )}
      {job !== undefined && (
        <section className="card" aria-label="Attempts">
          <div className="card-head">
            <h2>Attempts</h2>
          </div>
          <Attempts attempts={job.attempts} onLog={(attempt) => onSearch({ tab: "logs", attempt: String(attempt), at: "" })} />
        </section>
      )}
    </div>
  );
}

interface LanesProps {
  book: Logbook;
  metric: string | null;
  search: Words;
  onSearch: (change: Words) => void;
  onMoment: ((at: number) => void) | undefined;
}

function Lanes({ book, metric, search, onSearch, onMoment }: LanesProps): ReactElement {
  const now = useNow(10_000);
  const lanes = useMemo(() => lanesFrom(book.lanes ?? []), [book.lanes]);
  const view = readView(search);
  // Zoom and charts share one span; it is one of time only while the charts are drawn over time.
  const zoomed = view.x === "time" ? view.zoom : null;
  const ends = endsOfLanes(lanes, now);
  const from = zoomed === null ? ends[0] : zoomed[0] * 1000;
  const to = zoomed === null ? ends[1] : zoomed[1] * 1000;
  const runs = useMemo<ChartRun[]>(() => (book.runs ?? []).map((run) => ({ id: run.run_id, name: run.name, start: null })), [book.runs]);
  const onSpan = (span: Range | null): void =>
    onSearch(span === null ? { zoom: "" } : { x: "time", zoom: `${span[0] / 1000}~${span[1] / 1000}` });
  const settings: ChartSettings = {
    axis: "time",
    logX: false,
    logY: false,
    smoothing: 0,
    band: true,
    orphans: true,
    zoom: [from / 1000, to / 1000],
    onZoom: (zoom) => onSpan(zoom === null ? null : [zoom[0] * 1000, zoom[1] * 1000]),
  };
  return (
    <div className="lanes">
      <div className="lanes-grid">
        <div className="lanes-names" aria-hidden="true">
          {lanes.map((lane) => (
            <div key={lane.name}>{lane.name}</div>
          ))}
        </div>
        <LanesBody lanes={lanes} from={from} to={to} zoomed={zoomed !== null} onSpan={onSpan} onMoment={onMoment} />
      </div>
      {metric !== null && (
        <div className="lanes-curve">
          <Panel metric={metric} title={metric} runs={runs} settings={settings} sync="run-time" />
        </div>
      )}
    </div>
  );
}
