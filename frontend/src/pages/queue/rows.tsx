/** The rows of the queue. Only those on screen are drawn, so that ten thousand jobs stay quick. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState, type ReactElement } from "react";

import { currentTeam } from "../../api/client";
import type { Eta, Job } from "../../api/jobs";
import { JobActions } from "../../features/job/actions";
import { JobBadge, moment, Sentence } from "../../features/job/parts";
import { etaWords } from "../../features/job/eta";
import { WhyCard } from "../../features/why-card/why-card";
import { JobLog } from "../../features/job-log/job-log";
import { ago, duration, exact, grouped } from "../../lib/format";
import { asks, causeWord, isGoing, isOver, jobName, jobState } from "../../lib/job-states";
import { endOf, labelsOf, place, type Axis } from "../../lib/queue-axis";
import { isStuck, lookOf } from "../../lib/reasons";
import { Icon } from "../../ui/icon";
import { useNarrow } from "../../ui/use-narrow";

export interface Section {
  key: "going" | "waiting" | "stuck" | "ended";
  title: string;
  jobs: readonly Job[];
}

interface Props {
  sections: readonly Section[];
  axis: Axis;
  forecasts: ReadonlyMap<string, Eta>;
  open: string | undefined;
  onOpen: (job: string | undefined) => void;
  nameOf: (id: string) => string;
  waiting: number;
  /** waiting jobs that were not read */
  moreWaiting: number;
  onMoreWaiting: () => void;
  moreEnded: boolean;
  onMoreEnded: () => void;
}

type Line = { kind: "head"; section: Section } | { kind: "job"; section: Section["key"]; job: Job } | { kind: "more" | "more-waiting" };

const ROW = 46;
const NARROW_ROW = 92;

export function QueueRows(props: Props): ReactElement {
  const { sections, axis, open } = props;
  const narrow = useNarrow();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const lines = useMemo(() => {
    const found: Line[] = [];
    for (const section of sections) {
      if (section.jobs.length > 0) {
        found.push({ kind: "head", section });
        section.jobs.forEach((job) => found.push({ kind: "job", section: section.key, job }));
        if (section.key === "waiting" && props.moreWaiting > 0) {
          found.push({ kind: "more-waiting" });
        }
      }
    }
    return props.moreEnded ? [...found, { kind: "more" } as Line] : found;
  }, [sections, props.moreEnded, props.moreWaiting]);
  useEffect(() => setTop(box.current?.offsetTop ?? 0), []);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => document.getElementById("page"),
    estimateSize: (at) => (lines[at]?.kind === "job" ? (narrow ? NARROW_ROW : ROW) : 34),
    getItemKey: (at) => {
      const line = lines[at];
      return line === undefined ? at : line.kind === "job" ? line.job.job_id : line.kind === "head" ? line.section.key : line.kind;
    },
    scrollMargin: top,
    overscan: 12,
  });
  const [axisBox, axisWidth] = useWidth(320);
  const ticks = labelsOf(axis, axisWidth, (time) => moment(time, axis.now));
  return (
    <div className="queue" role="table" aria-label="Jobs">
      {!narrow && (
        <div className="queue-axis" aria-hidden="true">
          <span className="queue-ticks" ref={axisBox}>
            <span className="queue-now" style={{ left: `${place(axis, axis.now)}%` }}>
              now
            </span>
            {ticks.map(({ time, word }) => (
              <span key={time} className="queue-tick" style={{ left: `${place(axis, time)}%` }}>
                {word}
              </span>
            ))}
          </span>
        </div>
      )}
      <div ref={box} style={{ height: rows.getTotalSize(), position: "relative" }} role="rowgroup">
        {rows.getVirtualItems().map((item) => {
          const line = lines[item.index];
          return line === undefined ? null : (
            <div key={item.key} ref={rows.measureElement} data-index={item.index} className="queue-item" style={{ transform: `translateY(${item.start - top}px)` }}>
              {line.kind !== "job" && (
                <div role="row">
                  <div role="cell">
                  {line.kind === "head" && (
                    <h2 className="queue-head">
                      {line.section.title} <span className="faint">{grouped(line.section.jobs.length + (line.section.key === "waiting" ? props.moreWaiting : 0))}</span>
                    </h2>
                  )}
                  {line.kind === "more-waiting" && (
                    <button type="button" className="btn quiet small" style={{ margin: "4px 12px" }} onClick={props.onMoreWaiting}>
                      Show {grouped(props.moreWaiting)} more waiting jobs
                    </button>
                  )}
                  {line.kind === "more" && (
                    <button type="button" className="btn quiet small" style={{ margin: "4px 12px" }} onClick={props.onMoreEnded}>
                      Show more ended jobs
                    </button>
                  )}
                  </div>
                </div>
              )}
              {line.kind === "job" && <Row {...props} job={line.job} isOpen={open === line.job.job_id} narrow={narrow} />}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** The width of an element, as it changes. */
function useWidth(first: number): [(element: HTMLElement | null) => (() => void) | undefined, number] {
  const [width, setWidth] = useState(first);
  const box = useCallback((element: HTMLElement | null) => {
    if (element === null) {
      return undefined;
    }
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

type RowProps = Props & { job: Job; isOpen: boolean; narrow: boolean };

function Row({ job, isOpen, narrow, axis, forecasts, onOpen, nameOf, waiting }: RowProps): ReactElement {
  const navigate = useNavigate();
  const eta = forecasts.get(job.job_id) ?? null;
  const go = (): void => void navigate({ to: "/app/jobs/$jobId", params: { jobId: job.job_id }, search: {} });
  if (job.is_foreign === true) {
    return <ForeignRow job={job} narrow={narrow} axis={axis} eta={eta} />;
  }
  return (
    <div className={`queue-job${isOpen ? " open" : ""}`} role="row">
      {/* oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions -- keys j and k do the same, and the name is a link */}
      <div className="queue-row" onClick={(event) => (event.target as HTMLElement).closest("a, button, dialog, .menu") === null && onOpen(isOpen ? undefined : job.job_id)}>
        <div className="queue-name" role="cell">
          <a
            className="clip"
            href={`jobs/${job.job_id}`}
            title={`${jobName(job)} · ${job.job_id}`}
            onClick={(event) => {
              event.preventDefault();
              go();
            }}
          >
            {jobName(job)}
          </a>
          <span className="faint clip">
            {asks(job)} · {job.user}
            {job.team !== currentTeam() && ` · ${job.team}`}
            {job.priority !== "normal" && ` · ${job.priority}`}
          </span>
        </div>
        <div className="queue-state" role="cell">
          <RowState job={job} />
          <span className="faint">{narrow ? "" : timing(job, axis.now)}</span>
        </div>
        <div className="queue-words" role="cell">
          <Words job={job} eta={eta} axis={axis} nameOf={nameOf} />
        </div>
        {!narrow && (
          <div className="queue-time" role="cell">
            <TimeBar job={job} eta={eta} axis={axis} />
          </div>
        )}
        <div className="queue-act" role="cell">
          <JobActions job={job} compact />
        </div>
      </div>
      {isOpen && (
        <div className="queue-open">
          {job.state === "queued" ? (
            <WhyCard job={job} reasons={job.reason === null ? [] : [job.reason]} eta={eta} position={job.position} waiting={waiting} nameOf={nameOf} />
          ) : (
            <div className="queue-log">
              <JobLog job={job.job_id} attempts={job.attempt} over={isOver(job)} short />
              <div>
                <button type="button" className="btn small" onClick={go}>
                  Open the job
                </button>
              </div>
            </div>
          )}
        </div>
      )}
    </div>
  );
}

/** A job of another team: what it holds or waits for, and until when; the rest is that team's own. */
function ForeignRow({ job, narrow, axis, eta }: { job: Job; narrow: boolean; axis: Axis; eta: Eta | null }): ReactElement {
  const words = etaWords(eta, axis.now);
  return (
    <div className="queue-job" role="row">
      <div className="queue-row foreign" title={`A job of team ${job.team}`}>
        <div className="queue-name" role="cell">
          <span className="clip muted">Team {job.team}</span>
          <span className="faint clip">
            {asks(job)}
            {job.priority !== "normal" && ` · ${job.priority}`}
          </span>
        </div>
        <div className="queue-state" role="cell">
          <JobBadge job={job} />
          <span className="faint">{narrow ? "" : timing(job, axis.now)}</span>
        </div>
        <div className="queue-words" role="cell">
          <span className="muted clip">
            {job.state === "queued" && job.position !== null && <b title="Queue position">{job.position}. </b>}
            {job.state === "queued" ? (words === null ? "waiting" : `starts ${words.about}`) : job.on.length > 0 ? `on ${job.on.join(", ")}` : "starting"}
          </span>
        </div>
        {!narrow && (
          <div className="queue-time" role="cell">
            <TimeBar job={job} eta={eta} axis={axis} />
          </div>
        )}
        <div className="queue-act" role="cell" />
      </div>
    </div>
  );
}

/** A sentence without links, for hover. */
function plain(sentence: string, nameOf: (id: string) => string): string {
  return sentence.replace(/`([^`]+)`/g, (_, word: string) => nameOf(word));
}

/** The state; what waiting will not mend must not look like a wait. */
function RowState({ job }: { job: Job }): ReactElement {
  if (job.state !== "queued" || job.held || job.reason === null || !isStuck(job)) {
    return <JobBadge job={job} />;
  }
  const tier = lookOf(job.reason);
  return (
    <span className={`state tone-${tier.tone}`}>
      <Icon name={tier.icon} />
      {tier.word}
    </span>
  );
}

function timing(job: Job, now: number): string {
  if (job.state === "queued") {
    return duration(now - job.submitted_ms);
  }
  if (isGoing(job)) {
    return job.started_ms === null ? "" : duration(now - job.started_ms);
  }
  return job.started_ms === null || job.ended_ms === null ? "" : duration(job.ended_ms - job.started_ms);
}

function Words({ job, eta, axis, nameOf }: { job: Job; eta: Eta | null; axis: Axis; nameOf: (id: string) => string }): ReactElement {
  if (job.state === "queued") {
    if (job.reason === null) {
      return <span className="muted">Being looked at</span>;
    }
    const words = etaWords(eta, axis.now);
    const stuck = isStuck(job);
    return (
      <>
        <span className="queue-two" title={`${plain(job.reason.sentence, nameOf)}. ${job.reason.remedy}.`}>
          {job.position !== null && !stuck && <b title="Queue position">{job.position}. </b>}
          <Sentence text={job.reason.sentence} nameOf={nameOf} now={axis.now} />
        </span>
        {!stuck && (
          <span className="faint clip">
            {words === null ? "no start in sight yet" : `starts ${words.about}${words.range === "" ? "" : `, ${words.range}`}`}
            {job.attempt > 0 && job.made_room_for === "" && `; goes on after attempt ${job.attempt}`}
            {job.made_room_for !== "" && (
              <>
                ; preempted by <Preemptor id={job.made_room_for} nameOf={nameOf} />
              </>
            )}
          </span>
        )}
      </>
    );
  }
  if (isGoing(job)) {
    return (
      <span className="muted clip">
        {job.on.length > 0 && `on ${job.on.join(", ")}`}
        {job.step !== null && ` · step ${grouped(job.step)}`}
        {job.attempt > 1 && ` · attempt ${job.attempt}`}
        {job.made_room_for !== "" && (
          <>
            {" "}
            · saving, to make room for <Preemptor id={job.made_room_for} nameOf={nameOf} />
          </>
        )}
      </span>
    );
  }
  const why = job.state === "succeeded" ? "" : (job.sentence ?? causeWord({ cause: job.cause }));
  return (
    <>
      {job.error_line !== null && (
        <code className="queue-error clip" title={job.error_line}>
          {job.error_line}
        </code>
      )}
      <span className="muted clip" title={why}>
        {why}{" "}
        <span className="faint" title={exact(job.ended_ms)}>
          {ago(job.ended_ms, axis.now)}
        </span>
      </span>
    </>
  );
}

/** The job that another one made room for; a link where the reader may see it. */
function Preemptor({ id, nameOf }: { id: string; nameOf: (id: string) => string }): ReactElement {
  const name = nameOf(id);
  return name === id ? (
    <>another job</>
  ) : (
    <Link to="/app/jobs/$jobId" params={{ jobId: id }} search={{}}>
      {name}
    </Link>
  );
}

function TimeBar({ job, eta, axis }: { job: Job; eta: Eta | null; axis: Axis }): ReactElement {
  const now = `${place(axis, axis.now)}%`;
  return (
    <span className="time-bar">
      <span className="time-now" style={{ left: now }} />
      {isGoing(job) && <Going job={job} axis={axis} />}
      {isOver(job) && job.ended_ms !== null && job.ended_ms > axis.from && (
        <Span axis={axis} from={job.started_ms ?? job.submitted_ms} to={job.ended_ms} look={`solid ended tone-${jobState(job).tone}`} title={`ended ${exact(job.ended_ms)}`} />
      )}
      {job.state === "queued" && eta !== null && <Foreseen eta={eta} axis={axis} />}
      {job.state === "queued" && eta === null && job.reason?.until_ms !== null && job.reason?.until_ms !== undefined && job.reason.until_ms > axis.now && (
        <span className="time-until tone-amber" style={{ left: `${place(axis, job.reason.until_ms)}%` }} title={`this reason clears about ${exact(job.reason.until_ms)}`} />
      )}
    </span>
  );
}

function Going({ job, axis }: { job: Job; axis: Axis }): ReactElement {
  const start = job.started_ms ?? axis.now;
  const end = endOf(job);
  const tone = jobState(job).tone;
  return (
    <>
      <Span axis={axis} from={start} to={axis.now} look={`solid tone-${tone}`} title={`runs since ${exact(start)}`} />
      {end !== null && end > axis.now && <Span axis={axis} from={axis.now} to={end} look={`limit tone-${tone}`} title={`at most until ${exact(end)}`} />}
    </>
  );
}

function Foreseen({ eta, axis }: { eta: Eta; axis: Axis }): ReactElement {
  const start = eta.start_ms ?? eta.earliest_ms ?? axis.now;
  const first = Math.max(axis.now, eta.earliest_ms ?? start);
  const last = Math.max(first, eta.latest_ms ?? start);
  return (
    <>
      <Span axis={axis} from={first} to={last} look="range tone-amber" title={`starts between ${exact(first)} and ${exact(last)}`} />
      <span className="time-start tone-amber" style={{ left: `${place(axis, Math.max(axis.now, start))}%` }} title={`most likely ${exact(start)}`} />
    </>
  );
}

function Span({ axis, from, to, look, title }: { axis: Axis; from: number; to: number; look: string; title: string }): ReactElement {
  const left = place(axis, from);
  return <span className={`time-span ${look}${from < axis.from ? " cut" : ""}`} style={{ left: `${left}%`, width: `max(3px, ${place(axis, to) - left}%)` }} title={title} />;
}
