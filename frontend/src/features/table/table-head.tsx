/** The head of the runs table: sort by click, widen by dragging an edge, move by dragging a name. */
import type { Column } from "@tanstack/react-table";
import type { VirtualItem } from "@tanstack/react-virtual";
import { memo, useState, type MouseEvent, type ReactElement, type TouchEvent } from "react";

import { columnTitle, parseColumn } from "../../lib/columns";
import type { Line } from "../../lib/grouping";
import { leafOf } from "../../lib/metric-names";
import { Icon } from "../../ui/icon";

interface Props {
  seen: readonly VirtualItem[];
  leaves: readonly Column<Line>[];
  width: number;
  sort: string;
  allTicked: boolean;
  columns: readonly string[];
  onSort: (column: string) => void;
  onOrder: (columns: string[]) => void;
  /** told that the edge of a column is being dragged */
  onResize: (column: string, event: MouseEvent | TouchEvent) => void;
  onTickAll: () => void;
}

/** Move one column to the place of another. */
export function moved(columns: readonly string[], from: string, to: string): string[] {
  const rest = columns.filter((id) => id !== from);
  const at = columns.indexOf(to);
  rest.splice(at < 0 ? rest.length : at, 0, from);
  return rest;
}

/** Drawn again only when something of its own changed: a wheel's turn is none of its business. */
export const TableHead = memo(TableHeadPlain);

function TableHeadPlain(props: Props): ReactElement {
  const [dragged, setDragged] = useState<string | null>(null);
  return (
    <div className="grid-head" role="row" aria-rowindex={1} style={{ width: props.width }}>
      <div className="grid-fixed" role="columnheader">
        <input
          type="checkbox"
          className="tick"
          aria-label="Select all runs, or none"
          checked={props.allTicked}
          onChange={props.onTickAll}
        />
        <span className="muted">Run</span>
      </div>
      {props.seen.map((item) => {
        const leaf = props.leaves[item.index];
        const column = leaf === undefined ? null : parseColumn(leaf.id);
        if (leaf === undefined || column === null) {
          return null;
        }
        const title = columnTitle(column);
        const way = props.sort === leaf.id ? "ascending" : props.sort === `-${leaf.id}` ? "descending" : "none";
        return (
          <div
            key={leaf.id}
            role="columnheader"
            tabIndex={-1}
            aria-sort={way}
            aria-colindex={item.index + 2}
            className={`grid-th${dragged !== null && dragged !== leaf.id ? " drop" : ""}`}
            style={{ left: item.start, width: item.size }}
            onDragOver={(event) => event.preventDefault()}
            onDrop={() => {
              if (dragged !== null && dragged !== leaf.id) {
                props.onOrder(moved(props.columns, dragged, leaf.id));
              }
              setDragged(null);
            }}
          >
            <button
              type="button"
              draggable
              className={`grid-th-button${column.kind === "metric" ? " num" : ""}`}
              title={`${column.kind} ${title}: sort`}
              onClick={() => props.onSort(leaf.id)}
              onDragStart={() => setDragged(leaf.id)}
              onDragEnd={() => setDragged(null)}
            >
              <span className="clip">{column.kind === "metric" || column.kind === "spark" ? shortTitle(title) : title}</span>
              {way !== "none" && <Icon name={way === "ascending" ? "up" : "down"} />}
            </button>
            <span
              className="resize"
              aria-hidden="true"
              onMouseDown={(event) => props.onResize(leaf.id, event)}
              onTouchStart={(event) => props.onResize(leaf.id, event)}
            />
          </div>
        );
      })}
    </div>
  );
}

function shortTitle(title: string): string {
  return title.length > 22 && title.includes("/") ? `…/${leafOf(title)}` : title;
}
