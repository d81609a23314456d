/** Rows of the runs table: a run, or a group of runs. */
import type { Column as Leaf } from "@tanstack/react-table";
import type { VirtualItem } from "@tanstack/react-virtual";
import { Link, useRouter } from "@tanstack/react-router";
import { memo, type MouseEvent, type ReactElement, type ReactNode } from "react";

import { address } from "../../api/client";
import { TAGS, type RunsTable } from "../../api/runs";
import { colourOf } from "../../lib/colour";
import { parseColumn, type Column } from "../../lib/columns";
import { count, duration, exact, full, short } from "../../lib/format";
import { yard } from "../../lib/yard-line";
import { summarise, type Group, type Line } from "../../lib/grouping";
import { Icon } from "../../ui/icon";
import { Ago, Duration, StateBadge } from "../../ui/parts";
import { setLit } from "../chart/lit";
import { cellAt } from "./cells";
import { Sparkline } from "./sparkline";

export interface RowActions {
  tick: (run: string, index: number, through: boolean) => void;
  hide: (run: string) => void;
  star: (run: string, on: boolean) => void;
  fold: (group: string) => void;
  point: (index: number) => void;
}

interface Across {
  seen: readonly VirtualItem[];
  leaves: readonly Leaf<Line>[];
  table: RunsTable;
  /** the table is changed in place; this tells rows to draw again */
  version: number;
}

interface RunRowProps extends Across {
  id: string;
  row: number;
  index: number;
  top: number;
  width: number;
  isCursor: boolean;
  isTicked: boolean;
  isHidden: boolean;
  isCharted: boolean;
  isIndented: boolean;
  experiments: ReadonlyMap<string, string>;
  actions: RowActions;
}

function RunRowPlain(props: RunRowProps): ReactElement {
  const { id, row, table, actions, index } = props;
  const name = table.name[row] ?? id;
  const starred = table.tags[TAGS.star]?.[row] === "1";
  const colour = colourOf(id);
  const look = `${props.isCursor ? " cursor" : ""}${props.isTicked ? " ticked" : ""}${props.isHidden ? " off" : ""}`;
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- j and k do the same from the keyboard
    <div
      role="row"
      tabIndex={-1}
      aria-rowindex={index + 2}
      aria-selected={props.isTicked}
      className={`grid-row${look}`}
      style={{ transform: `translateY(${props.top}px)`, width: props.width }}
      onClick={() => actions.point(index)}
      onPointerEnter={() => setLit(id)}
      onPointerLeave={() => setLit(null)}
    >
      <div className="grid-fixed" role="rowheader" style={{ paddingLeft: props.isIndented ? 20 : undefined }}>
        <input
          type="checkbox"
          className="tick"
          aria-label={`Tick ${name}`}
          checked={props.isTicked}
          onClick={(event) => actions.tick(id, index, event.shiftKey)}
          readOnly
        />
        <button
          type="button"
          className="cell-button"
          title={props.isHidden ? "Show in the charts" : "Hide from the charts: in this view alone, whose address holds it"}
          aria-label={props.isHidden ? `Show ${name} in the charts` : `Hide ${name} from the charts`}
          aria-pressed={props.isHidden}
          onClick={() => actions.hide(id)}
        >
          {props.isHidden ? (
            <Icon name="eye-off" />
          ) : (
            <span className="dot" style={props.isCharted ? { background: colour } : { border: `2px solid ${colour}` }} />
          )}
        </button>
        <RunLink id={id} name={name} />
        <button
          type="button"
          className={`cell-button star${starred ? " on" : ""}`}
          title={starred ? `Take the star away: ${yard.untag([id], TAGS.star)}` : `Star: ${yard.tag([id], TAGS.star, "1")}`}
          aria-label={starred ? `Take the star from ${name}` : `Star ${name}`}
          aria-pressed={starred}
          onClick={() => actions.star(id, !starred)}
        >
          {starred ? "★" : "☆"}
        </button>
      </div>
      {props.seen.map((item) => {
        const leaf = props.leaves[item.index];
        const column = leaf === undefined ? null : parseColumn(leaf.id);
        if (column === null) {
          return null;
        }
        const plain = plainCell(table, column, row);
        return (
          <div
            key={leaf?.id}
            role="gridcell"
            aria-colindex={item.index + 2}
            className={`grid-td${isNumber(column) ? " num" : ""}${plain === null ? "" : " plain"}`}
            style={{ left: item.start, width: item.size }}
            title={plain?.full}
          >
            {plain === null ? (
              <RunCell table={table} column={column} row={row} id={id} colour={colour} width={item.size} experiments={props.experiments} />
            ) : (
              plain.text
            )}
          </div>
        );
      })}
    </div>
  );
}

/** One run. Drawn again only when something of its own changed. */
export const RunRow = memo(RunRowPlain);

/** A link to a run. The router's own takes a millisecond to draw, which hundreds of rows feel. */
function RunLink({ id, name }: { id: string; name: string }): ReactElement {
  const router = useRouter();
  const open = (event: MouseEvent): void => {
    if (event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      void router.navigate({ to: "/app/runs/$runId", params: { runId: id }, search: {} });
    }
  };
  return (
    <a href={address(`/app/runs/${id}`)} className="run-name clip" title={name} onClick={open}>
      {name}
    </a>
  );
}

function isNumber(column: Column): boolean {
  return column.kind === "metric" || (column.kind === "attribute" && column.key === "duration");
}

/** A cell that is a text and nothing else, as most are; null for others. */
function plainCell(table: RunsTable, column: Column, row: number): { text: string; full: string } | null {
  if (column.kind === "spark" || column.kind === "attribute") {
    return null;
  }
  const value = cellAt(table, column, row, 0);
  if (value === undefined || value === null) {
    return null;
  }
  return { text: column.kind === "metric" ? short(value) : String(value), full: full(value) };
}

interface CellProps {
  table: RunsTable;
  column: Column;
  row: number;
  id: string;
  colour: string;
  width: number;
  experiments: ReadonlyMap<string, string>;
}

function RunCell({ table, column, row, id, colour, width, experiments }: CellProps): ReactNode {
  if (column.kind === "spark") {
    return <Sparkline run={id} metric={column.key} colour={colour} width={width - 16} />;
  }
  const value = cellAt(table, column, row, 0);
  if (value === undefined) {
    return <span className="skeleton cell-wait" />;
  }
  if (column.kind === "attribute") {
    return <AttributeCell table={table} name={column.key} row={row} value={value} experiments={experiments} />;
  }
  return <span className="faint">—</span>;
}

function AttributeCell(props: {
  table: RunsTable;
  name: string;
  row: number;
  value: number | string | null;
  experiments: ReadonlyMap<string, string>;
}): ReactNode {
  const { table, row, value } = props;
  switch (props.name) {
    case "status":
      return <StateBadge status={String(value)} />;
    case "started":
      return <Ago ms={table.start_ms[row]} />;
    case "duration":
      return <Duration start={table.start_ms[row] ?? null} end={table.end_ms[row]} status={table.status[row] ?? ""} />;
    case "experiment":
      return <span className="clip">{props.experiments.get(String(value)) ?? String(value)}</span>;
    case "commit":
      return value === null ? <span className="faint">—</span> : <code title={String(value)}>{String(value).slice(0, 8)}</code>;
    default:
      return value === null ? (
        <span className="faint">—</span>
      ) : (
        <span className="clip" title={String(value)}>
          {String(value).replace(/[#*`\n|]+/g, " ").trim()}
        </span>
      );
  }
}

interface GroupRowProps extends Across {
  top: number;
  width: number;
  group: Group;
  folded: boolean;
  onFold: (id: string) => void;
}

/** The head of a group: how many runs, and mean, least and greatest of each metric. */
export function GroupRow(props: GroupRowProps): ReactElement {
  const { group, table } = props;
  return (
    <div role="row" className="grid-row group" style={{ transform: `translateY(${props.top}px)`, width: props.width }}>
      <div className="grid-fixed" role="rowheader">
        <button type="button" className="cell-button" aria-expanded={!props.folded} aria-label={`Group ${group.values.join(", ")}`} onClick={() => props.onFold(group.id)}>
          <Icon name={props.folded ? "right" : "down"} />
        </button>
        <b className="clip grow" title={group.values.join(", ")}>
          {group.values.join(" · ")}
        </b>
        <span className="faint">{count(group.rows.length, "run")}</span>
      </div>
      {props.seen.map((item) => {
        const leaf = props.leaves[item.index];
        const column = leaf === undefined ? null : parseColumn(leaf.id);
        if (column === null) {
          return null;
        }
        const numeric = column.kind === "metric" || (column.kind === "attribute" && column.key === "duration");
        const sum = numeric ? summarise(group.rows.map((row) => cellAt(table, column, row, Number.NaN))) : null;
        const show = column.kind === "metric" ? short : duration;
        return (
          <div key={leaf?.id} role="gridcell" className="grid-td num" style={{ left: item.start, width: item.size }}>
            {sum !== null && (
              <span className="clip" title={`mean ${show(sum.mean)}, least ${show(sum.min)}, greatest ${show(sum.max)} of ${count(sum.count, "run")}`}>
                ø {show(sum.mean)}
              </span>
            )}
          </div>
        );
      })}
    </div>
  );
}

/** A run as a line of a list, for narrow screens. */
export function RunLine(props: {
  id: string;
  row: number;
  table: RunsTable;
  metrics: readonly string[];
  isTicked: boolean;
  isHidden: boolean;
  actions: RowActions;
}): ReactElement {
  const { id, row, table } = props;
  const name = table.name[row] ?? id;
  return (
    <li className="run-line">
      <input type="checkbox" className="tick" aria-label={`Tick ${name}`} checked={props.isTicked} onChange={() => props.actions.tick(id, row, false)} />
      <Link to="/app/runs/$runId" params={{ runId: id }} search={{}} className="run-line-main">
        <span className="row">
          <span className="dot" style={{ background: colourOf(id) }} />
          <b className="clip grow">{name}</b>
          <StateBadge status={table.status[row] ?? ""} />
        </span>
        <span className="row muted run-line-facts">
          <span title={exact(table.start_ms[row])}>
            <Ago ms={table.start_ms[row]} />
          </span>
          <Duration start={table.start_ms[row] ?? null} end={table.end_ms[row]} status={table.status[row] ?? ""} />
          {props.metrics.map((key) => (
            <span key={key} className="clip">
              {key} <b>{short(table.metrics[key]?.last[row])}</b>
            </span>
          ))}
        </span>
      </Link>
    </li>
  );
}
