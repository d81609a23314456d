/** The lanes of a job over its loss curve, on one axis of time. Dragging over them chooses a span for every chart. */
import { useMemo, useState, type PointerEvent, type ReactElement } from "react";

import type { JobDetail } from "../../api/jobs";
import type { YardEvent } from "../../api/events";
import { clock, duration, exact } from "../../lib/format";
import { jobLanes, laneEnds, type JobBar, type JobLane } from "../../lib/job-lanes";
import type { Range } from "../../lib/range";
import { Icon } from "../../ui/icon";
import { Panel, type ChartRun, type ChartSettings } from "../chart/panel";
import "../chart/chart.css";
import "./lanes.css";

interface Props {
  detail: JobDetail;
  events: readonly YardEvent[];
  now: number;
  /** what is zoomed to, in milliseconds */
  span: Range | null;
  onSpan: (span: Range | null) => void;
  /** the metric drawn underneath; none where the lanes stand alone */
  metric: string | null;
}

export function JobLanes({ detail, events, now, span, onSpan, metric }: Props): ReactElement {
  const lanes = useMemo(() => jobLanes(detail, events, now), [detail, events, now]);
  const ends = laneEnds(detail, now);
  const [from, to] = span ?? ends;
  const run = useMemo<ChartRun[]>(() => [{ id: detail.job.run_id, name: detail.job.name, start: detail.job.started_ms }], [detail.job.run_id, detail.job.name, detail.job.started_ms]);
  // The axis of a curve that is not zoomed follows in steps, or it would be read anew every second.
  const step = Math.max(2000, Math.round((to - from) / 100));
  const edge = span === null ? Math.ceil(to / step) * step : to;
  // Between two attempts nothing was learned: the curve has a gap there.
  const starts = detail.attempts.slice(1).map((attempt) => attempt.admitted_ms / 1000).join();
  const settings = useMemo<ChartSettings>(
    () => ({
      breaks: starts === "" ? [] : starts.split(",").map(Number),
      axis: "time",
      logX: false,
      logY: false,
      smoothing: 0,
      band: true,
      orphans: true,
      zoom: [from / 1000, edge / 1000],
      onZoom: (zoom) => onSpan(zoom === null ? null : [zoom[0] * 1000, zoom[1] * 1000]),
      lit: null,
    }),
    [from, edge, onSpan, starts],
  );
  return (
    <div className="lanes">
      <div className="lanes-grid">
        <div className="lanes-names" aria-hidden="true">
          {lanes.map((lane) => (
            <div key={lane.name}>{lane.name}</div>
          ))}
        </div>
        <LanesBody lanes={lanes} from={from} to={edge} zoomed={span !== null} onSpan={onSpan} />
      </div>
      {metric !== null && (
        <div className="lanes-curve">
          <Panel metric={metric} title={metric} runs={run} settings={settings} sync="job-time" />
        </div>
      )}
    </div>
  );
}

interface BodyProps {
  lanes: readonly JobLane[];
  from: number;
  to: number;
  zoomed: boolean;
  onSpan: (span: Range | null) => void;
  /** a click on a moment, in milliseconds */
  onMoment?: ((at: number) => void) | undefined;
}

/** Lanes over one axis of time: dragging chooses a span, a click a moment. */
export function LanesBody({ lanes, from, to, zoomed, onSpan, onMoment }: BodyProps): ReactElement {
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const left = (time: number): number => ((time - from) / (to - from)) * 100;
  const timeAt = (event: PointerEvent<HTMLElement>): number => {
    const box = event.currentTarget.getBoundingClientRect();
    return from + (Math.min(box.width, Math.max(0, event.clientX - box.left)) / box.width) * (to - from);
  };
  const finish = (): void => {
    if (drag !== null && Math.abs(drag[1] - drag[0]) > (to - from) / 150) {
      onSpan([Math.min(...drag), Math.max(...drag)]);
    } else if (drag !== null) {
      onMoment?.(drag[1]);
    }
    setDrag(null);
  };
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => from + (to - from) * share);
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- the charts below zoom by keys of their own
    <div
      className="lanes-body"
      title={onMoment === undefined ? "Drag to zoom every chart; double click to see all" : "Drag to zoom every chart; click for the log of that moment"}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag([timeAt(event), timeAt(event)]);
      }}
      onPointerMove={(event) => drag !== null && setDrag([drag[0], timeAt(event)])}
      onPointerUp={finish}
      onPointerCancel={() => setDrag(null)}
      onDoubleClick={() => onSpan(null)}
    >
      {lanes.map((lane) => (
        <div key={lane.name} className="lane" role="group" aria-label={lane.name}>
          {lane.bars
            .filter((bar) => bar.to > from && bar.from < to)
            .map((bar, at) => (
              <LaneBar key={at} bar={bar} left={Math.max(0, left(bar.from))} right={Math.min(100, left(bar.to))} />
            ))}
          {lane.marks
            .filter((mark) => mark.at >= from && mark.at <= to)
            .map((mark, at) => (
              <span key={`${mark.at}-${at}`} className={`lane-mark ${lane.name === "Alerts" ? "alert" : ""} tone-${mark.tone}`} style={{ left: `${left(mark.at)}%` }} title={`${mark.label} · ${exact(mark.at)}`}>
                {lane.name === "Alerts" ? "!" : ""}
              </span>
            ))}
        </div>
      ))}
      {drag !== null && <span className="lanes-brush" style={{ left: `${left(Math.min(...drag))}%`, width: `${left(Math.max(...drag)) - left(Math.min(...drag))}%` }} />}
      <div className="lanes-ticks">
        {ticks.map((time, at) => (
          <span key={at} style={{ left: `${at * 25}%` }} title={exact(time)}>
            {to - from > 86_400_000 ? exact(time).slice(5, 16) : clock(time)}
          </span>
        ))}
      </div>
      {zoomed && (
        <button type="button" className="btn small lanes-reset" onPointerDown={(event) => event.stopPropagation()} onClick={() => onSpan(null)}>
          <Icon name="expand" />
          All of it
        </button>
      )}
    </div>
  );
}

function LaneBar({ bar, left, right }: { bar: JobBar; left: number; right: number }): ReactElement {
  return (
    <span
      className={`lane-bar ${bar.pattern} tone-${bar.tone}`}
      style={{ left: `${left}%`, width: `max(3px, ${right - left}%)` }}
      title={`${bar.label} · ${exact(bar.from)} to ${exact(bar.to)}, ${duration(bar.to - bar.from)}`}
    >
      {bar.pattern === "plain" && right - left > 2.5 && (
        <span className="lane-word">
          {bar.sign !== null && <Icon name={bar.sign} />}
          {right - left > 11 ? bar.word : right - left > 4 ? bar.word.split(" ")[0] : ""}
        </span>
      )}
    </span>
  );
}
