/**
 * Nodes as rows, time as columns, leases as solid bars with running and predicted jobs beneath. Draw on free time to
 * propose a lease, drag a bar to move it, its edges to stretch it; arrows do the same. It only proposes: who shows it decides.
 */
import { useEffect, useRef, useState, type KeyboardEvent, type PointerEvent, type ReactElement } from "react";

import type { Calendar as Rows, CalendarJob, CalendarLease, CalendarRow } from "../../api/leases";
import { between, dragged, drawn, lanesOf, placeOf, type Draft, type Grip } from "../../lib/calendar-rows";
import { clickLength, hourMinute, moment, offsetAt, span, stepOf, ticksOf, type Scale, type Window } from "../../lib/calendar-time";
import { bytes, count, short } from "../../lib/format";
import { leaseState } from "../../lib/lease-lines";
import { Icon } from "../../ui/icon";
import "./calendar.css";

/** What someone proposes: a new lease, or another time or place of one that is there. */
export interface Proposal extends Draft {
  lease: CalendarLease | null;
  /** the nodes that the lease holds now; none for a new one */
  held: string[];
}

interface Props {
  calendar: Rows;
  scale: Scale;
  shown: Window;
  now: number;
  proposal: Proposal | null;
  /** a proposal that changes while it is dragged; `done` when it is let go */
  onPropose: (proposal: Proposal | null, done: boolean) => void;
  onOpen: (lease: CalendarLease) => void;
  /** whether every node is a row; where some are not, a lease may be on them, too, and keeps its nodes */
  isWhole: boolean;
}

interface Drag {
  lease: CalendarLease | null;
  grip: Grip;
  node: string;
  from: number;
  /** nodes of the lease, before the drag */
  nodes: string[];
  moved: boolean;
}

export function Calendar(props: Props): ReactElement {
  const { calendar, shown, now } = props;
  const body = useRef<HTMLDivElement>(null);
  const drag = useRef<Drag | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const order = calendar.rows.map((row) => row.node_id);
  const nodesOf = (lease: CalendarLease): string[] => calendar.rows.filter((row) => row.leases.some((one) => one.lease_id === lease.lease_id)).map((row) => row.node_id);

  const timeAt = (event: PointerEvent): number => {
    const box = body.current?.querySelector(".cal-track")?.getBoundingClientRect();
    const share = box === undefined || box.width === 0 ? 0 : (event.clientX - box.left) / box.width;
    return shown.from + Math.min(1, Math.max(0, share)) * (shown.to - shown.from);
  };
  const nodeAt = (event: PointerEvent): string => document.elementFromPoint(event.clientX, event.clientY)?.closest<HTMLElement>("[data-node]")?.dataset.node ?? drag.current?.node ?? "";
  const proposed = (held: Drag, event: PointerEvent): Proposal => {
    const at = timeAt(event);
    const node = nodeAt(event);
    if (held.lease === null) {
      return { ...drawn(held.from, at, props.scale, now, clickLength(props.scale)), nodes: between(order, held.node, node), lease: null, held: [] };
    }
    const placed = dragged(held.lease, held.grip, at - held.from, props.scale);
    // A lease on one node goes to another by being dragged there; of several nodes it is not clear which.
    const nodes = props.isWhole && held.grip === "move" && held.nodes.length === 1 && held.lease.state === "pending" ? [node] : held.nodes;
    return { ...placed, nodes, lease: held.lease, held: held.nodes };
  };
  const begin = (event: PointerEvent, node: string, lease: CalendarLease | null, grip: Grip): void => {
    if (event.button !== 0 || event.pointerType === "touch") {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    body.current?.setPointerCapture(event.pointerId);
    drag.current = { lease, grip, node, from: timeAt(event), nodes: lease === null ? [node] : nodesOf(lease), moved: false };
  };
  const move = (event: PointerEvent): void => {
    setCursor(timeAt(event));
    const held = drag.current;
    if (held !== null) {
      held.moved ||= Math.abs(timeAt(event) - held.from) > (shown.to - shown.from) / 400 || nodeAt(event) !== held.node;
      if (held.moved) {
        props.onPropose(proposed(held, event), false);
      }
    }
  };
  const end = (event: PointerEvent): void => {
    const held = drag.current;
    drag.current = null;
    if (held === null) {
      return;
    }
    if (held.lease !== null && !held.moved) {
      props.onOpen(held.lease);
    } else {
      props.onPropose(proposed(held, event), true);
    }
  };
  const keys = (event: KeyboardEvent, lease: CalendarLease, node: string): void => {
    const step = stepOf(props.scale);
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const up = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const held = props.proposal?.lease?.lease_id === lease.lease_id ? props.proposal : { starts_ms: lease.starts_ms, ends_ms: lease.ends_ms, nodes: nodesOf(lease), lease, held: nodesOf(lease) };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (props.proposal !== null) {
        props.onPropose(held, true);
      } else {
        props.onOpen(lease);
      }
    } else if (event.key === "Escape") {
      props.onPropose(null, false);
    } else if (lease.editable && way !== undefined) {
      event.preventDefault();
      const grip: Grip = event.shiftKey || lease.state !== "pending" ? "end" : "move";
      props.onPropose({ ...held, ...dragged(held, grip, way * step, props.scale) }, false);
    } else if (lease.editable && up !== undefined && props.isWhole && held.nodes.length === 1 && lease.state === "pending") {
      event.preventDefault();
      const next = order[order.indexOf(held.nodes[0] ?? node) + up];
      props.onPropose(next === undefined ? held : { ...held, nodes: [next] }, false);
    }
  };
  const place = useRef((now - shown.from) / (shown.to - shown.from));
  useEffect(() => {
    // Where the calendar is wider than the screen, what is going on now is in sight first.
    const box = body.current;
    if (box !== null && box.scrollWidth > box.clientWidth && place.current > 0 && place.current < 1) {
      const track = box.querySelector(".cal-track")?.clientWidth ?? 0;
      box.scrollLeft = Math.max(0, track * place.current - 40);
    }
  }, []);
  const clockPlace = ((now - shown.from) / (shown.to - shown.from)) * 100;
  const ticks = ticksOf(props.scale, shown);
  return (
    <div
      ref={body}
      className={`cal cal-${props.scale}`}
      role="grid"
      tabIndex={-1}
      aria-label="Leases by node and time"
      onPointerMove={move}
      onPointerUp={end}
      onPointerLeave={() => setCursor(null)}
      onPointerCancel={() => {
        drag.current = null;
        props.onPropose(null, false);
      }}
    >
      <div className="cal-head" role="row">
        <div className="cal-name muted" role="columnheader">
          {count(calendar.rows.length, "node")}
        </div>
        <div className="cal-ticks" role="columnheader">
          {ticks.map((tick) => (
            <span key={tick.at} className="cal-tick" style={{ left: `${((tick.at - shown.from) / (shown.to - shown.from)) * 100}%` }}>
              {tick.word}
            </span>
          ))}
          {cursor !== null && (
            <span className="cal-cursor-word" style={{ left: `${((cursor - shown.from) / (shown.to - shown.from)) * 100}%` }}>
              {props.scale === "day" ? hourMinute(cursor) : moment(cursor)}
            </span>
          )}
        </div>
      </div>
      {calendar.rows.map((row) => (
        <Row
          key={row.node_id}
          row={row}
          shown={shown}
          ticks={ticks.map((tick) => tick.at)}
          clockPlace={clockPlace}
          proposal={props.proposal?.nodes.includes(row.node_id) === true ? props.proposal : null}
          moving={props.proposal?.lease?.lease_id ?? null}
          onBegin={begin}
          onKeys={keys}
          onOpen={props.onOpen}
          onAdd={() => props.onPropose({ ...drawn(now, now, props.scale, now, clickLength(props.scale)), nodes: [row.node_id], lease: null, held: [] }, true)}
        />
      ))}
    </div>
  );
}

interface RowProps {
  row: CalendarRow;
  shown: Window;
  ticks: readonly number[];
  clockPlace: number;
  proposal: Proposal | null;
  moving: string | null;
  onBegin: (event: PointerEvent, node: string, lease: CalendarLease | null, grip: Grip) => void;
  onKeys: (event: KeyboardEvent, lease: CalendarLease, node: string) => void;
  onOpen: (lease: CalendarLease) => void;
  onAdd: () => void;
}

const JOB_LANES = 3;

function Row(props: RowProps): ReactElement {
  const { row, shown } = props;
  const jobs = lanesOf(row.jobs.filter((job) => placeOf(job, shown) !== null));
  const lanes = Math.min(JOB_LANES, Math.max(0, ...jobs.map(({ lane }) => lane + 1)));
  const hidden = jobs.filter(({ lane }) => lane >= JOB_LANES).length;
  const facts = [row.gpu_type || row.class, row.gpus > 0 ? count(row.gpus, "GPU") : count(row.cpus, "CPU"), row.gpu_memory_bytes > 0 ? bytes(row.gpu_memory_bytes) : ""].filter((word) => word !== "");
  return (
    <div className="cal-row" role="row" data-node={row.node_id} style={{ height: 34 + lanes * 9 }}>
      <div className="cal-name" role="rowheader" title={[row.node_id, ...facts, row.state, row.note].filter((word) => word !== "").join(" · ")}>
        <span className="cal-node">
          <b className="clip">{row.node_id}</b>
          <span className="faint clip">{row.state === "ready" ? facts.join(", ") : `${row.state}${row.note === "" ? "" : `: ${row.note}`}`}</span>
        </span>
        <button type="button" className="cell-button" title={`Lease ${row.node_id}`} aria-label={`Lease ${row.node_id}`} onClick={props.onAdd}>
          <Icon name="plus" />
        </button>
      </div>
      {/* oxlint-disable-next-line jsx-a11y/interactive-supports-focus -- the plus beside the name does the same from the keyboard */}
      <div className="cal-track" role="gridcell" onPointerDown={(event) => props.onBegin(event, row.node_id, null, "end")}>
        {props.ticks.map((at) => (
          <i key={at} className="cal-line" style={{ left: `${((at - shown.from) / (shown.to - shown.from)) * 100}%` }} />
        ))}
        {row.outages.map((one) => {
          const place = placeOf({ starts_ms: one.from_ms, ends_ms: one.to_ms ?? shown.to }, shown);
          return place === null ? null : <span key={one.from_ms} className="cal-outage" style={style(place)} title={`${one.state}${one.note === "" ? "" : `: ${one.note}`} since ${moment(one.from_ms)}`} />;
        })}
        {jobs.map(({ span: job, lane }, at) => (lane < JOB_LANES ? <JobBar key={`${job.job_id}-${at}`} job={job} shown={shown} lane={lane} /> : null))}
        {hidden > 0 && <span className="cal-more faint">+{count(hidden, "job")}</span>}
        {row.leases.map((lease) => (
          <LeaseBar key={lease.lease_id} lease={lease} {...props} isMoving={props.moving === lease.lease_id} />
        ))}
        {props.proposal !== null && <Ghost proposal={props.proposal} shown={shown} />}
        {props.clockPlace >= 0 && props.clockPlace <= 100 && <i className="cal-now" style={{ left: `${props.clockPlace}%` }} />}
      </div>
    </div>
  );
}

const style = ({ left, width }: { left: number; width: number }): { left: string; width: string } => ({ left: `${left}%`, width: `${width}%` });

function LeaseBar({ lease, row, shown, isMoving, onBegin, onKeys, onOpen }: RowProps & { lease: CalendarLease; isMoving: boolean }): ReactElement | null {
  const place = placeOf(lease, shown);
  if (place === null) {
    return null;
  }
  const state = leaseState(lease.state);
  const canStart = lease.editable && lease.state === "pending";
  const whose = lease.mine ? "mine" : lease.editable ? "ours" : "theirs";
  const words = `${lease.name}, ${lease.user} (team ${lease.team}), ${state.word}${lease.degraded ? ", degraded" : ""}${lease.lent ? ", lent" : ""}, ${span(lease.starts_ms, lease.ends_ms)}`;
  return (
    <button
      type="button"
      className={`cal-lease ${whose}${lease.kind === "pool" ? " pool" : ""}${lease.parent === "" ? "" : " part"}${isMoving ? " moving" : ""}${lease.degraded || lease.state === "error" ? " bad" : ""}`}
      style={style(place)}
      title={words}
      aria-label={`Lease ${words}`}
      data-lease={lease.name}
      onPointerDown={(event) => onBegin(event, row.node_id, lease, lease.editable && canStart ? "move" : "end")}
      onClick={(event) => event.detail === 0 || (event.nativeEvent as globalThis.PointerEvent).pointerType === "touch" ? onOpen(lease) : undefined}
      onKeyDown={(event) => onKeys(event, lease, row.node_id)}
    >
      {canStart && <span className="cal-grip start" onPointerDown={(event) => onBegin(event, row.node_id, lease, "start")} />}
      <Icon name={lease.degraded ? "warn" : state.icon} />
      <span className="clip">{lease.name}</span>
      {!lease.mine && <span className="clip cal-user">{lease.user}</span>}
      {lease.editable && <span className="cal-grip end" onPointerDown={(event) => onBegin(event, row.node_id, lease, "end")} />}
    </button>
  );
}

function JobBar({ job, shown, lane }: { job: CalendarJob; shown: Window; lane: number }): ReactElement | null {
  const place = placeOf(job, shown);
  const name = job.name === "" ? "a job" : job.name;
  const words = `${job.phase === "running" ? "runs" : "is expected"}: ${name}${job.user === "" ? "" : ` of ${job.user}`}, ${job.team}, ${short(job.gpus)} GPUs, ${span(job.starts_ms, job.ends_ms)}${job.ends_known ? "" : ", end not known"}`;
  return place === null ? null : <span className={`cal-job ${job.phase}${job.ends_known ? "" : " open"}`} style={{ ...style(place), top: 30 + lane * 9 }} title={words} />;
}

function Ghost({ proposal, shown }: { proposal: Proposal; shown: Window }): ReactElement | null {
  const place = placeOf(proposal, shown);
  return place === null ? null : (
    <span className="cal-ghost" style={style(place)}>
      <span className="cal-ghost-word">
        {hourMinute(proposal.starts_ms)}–{hourMinute(proposal.ends_ms)} {offsetAt(proposal.starts_ms)}
      </span>
    </span>
  );
}
