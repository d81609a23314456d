/** A run as a line of a list, for narrow screens. */
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import type { RunsTable } from "../../api/runs";
import { colourOf } from "../../lib/colour";
import { shownStatus } from "../../lib/states";
import { exact, short } from "../../lib/format";
import { Ago, Duration, StateBadge, useNow } from "../../ui/parts";
import type { RowActions } from "./grid-rows";

/** One run: its name and state, and what matters most of it. */
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
  const now = useNow(60_000);
  return (
    <li className="run-line">
      <input type="checkbox" className="tick" aria-label={`Select ${name}`} checked={props.isTicked} onChange={() => props.actions.tick(id, row, false)} />
      <Link to="/app/runs/$runId" params={{ runId: id }} search={{}} className="run-line-main">
        <span className="row">
          <span className="dot" style={{ background: colourOf(id) }} />
          <b className="clip grow">{name}</b>
          <StateBadge status={shownStatus(table.status[row] ?? "", table.heard_ms[row], now)} />
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
