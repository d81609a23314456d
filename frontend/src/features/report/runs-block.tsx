/** A run set in a report: a small table of its runs. */
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, type ReactElement } from "react";

import { coloursOf } from "../../lib/colour";
import { columnTitle, type Column } from "../../lib/columns";
import type { RunSet } from "../../lib/report";
import { ErrorCard, Skeleton, StateBadge, useNow } from "../../ui/parts";
import { isNumeric, lookOf } from "../table/cell-look";
import { useRunSet, type FoundRuns } from "./use-set";

const Sparkline = lazy(() => import("../table/sparkline").then((found) => ({ default: found.Sparkline })));
const USUAL: readonly Column[] = [
  { kind: "attribute", key: "status" },
  { kind: "attribute", key: "duration" },
  { kind: "attribute", key: "started" },
];

export function RunsBlock({ set }: { set: RunSet }): ReactElement {
  const found = useRunSet(set);
  const columns = set.columns.length > 0 ? set.columns : USUAL;
  return (
    <figure className="report-runs" aria-label={set.title === "" ? "Runs" : set.title}>
      {set.title !== "" && <figcaption>{set.title}</figcaption>}
      {found.error !== null ? (
        <ErrorCard title="These runs could not be read" error={found.error} />
      ) : found.table === undefined ? (
        <Skeleton rows={3} />
      ) : found.table.run_id.length === 0 ? (
        <p className="faint">No run matches.</p>
      ) : (
        <Rows columns={columns} found={found} />
      )}
    </figure>
  );
}

function Rows({ columns, found }: { columns: readonly Column[]; found: FoundRuns }): ReactElement {
  const now = useNow(10_000);
  const table = found.table;
  const paint = coloursOf(table?.run_id ?? []);
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keys
    <div className="report-scroll" tabIndex={0} role="region" aria-label="Runs">
      <table className="plain">
        <thead>
          <tr>
            <th>Run</th>
            {columns.map((column, at) => (
              <th key={at} className={isNumeric(column) ? "num" : undefined}>
                {columnTitle(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(table?.run_id ?? []).map((id, row) => (
            <tr key={id}>
              <td className="nowrap">
                <span className="dot" style={{ background: paint.get(id) }} />{" "}
                <Link to="/app/runs/$runId" params={{ runId: id }} search={{}}>
                  {table?.name[row]}
                </Link>
              </td>
              {columns.map((column, at) => (
                <Cell key={at} column={column} found={found} row={row} now={now} colour={paint.get(id) ?? "#888888"} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface CellProps {
  column: Column;
  found: FoundRuns;
  row: number;
  now: number;
  colour: string;
}

function Cell({ column, found, row, now, colour }: CellProps): ReactElement {
  if (found.table === undefined) {
    return <td />;
  }
  const look = lookOf(found.table, column, row, found.names, now);
  return (
    <td className={isNumeric(column) ? "num" : "nowrap"} title={look.full}>
      {look.kind === "state" ? (
        <StateBadge status={look.text} />
      ) : look.kind === "spark" && column.kind === "spark" ? (
        <Suspense fallback={null}>
          <Sparkline run={look.text} metric={column.key} colour={colour} />
        </Suspense>
      ) : (
        look.text
      )}
    </td>
  );
}
