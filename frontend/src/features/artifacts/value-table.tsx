/** A table of values, however long: rows are drawn as they come into sight. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState, type ReactElement } from "react";

import { grouped } from "../../lib/format";
import { Icon } from "../../ui/icon";

const ROW = 26;

/** Rows sorted by a column: by number where both are numbers, else by word. */
export function sorted(rows: readonly string[][], column: number, descending: boolean): string[][] {
  const collator = new Intl.Collator("en", { numeric: true });
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [a[column] ?? "", b[column] ?? ""];
    const [one, two] = [Number(left), Number(right)];
    const both = left !== "" && right !== "" && Number.isFinite(one) && Number.isFinite(two);
    return (both ? one - two : collator.compare(left, right)) * sign;
  });
}

export function ValueTable({ head, rows, total }: { head: readonly string[]; rows: readonly string[][]; total?: number }): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [sort, setSort] = useState<{ column: number; descending: boolean } | null>(null);
  const shown = useMemo(() => (sort === null ? rows : sorted(rows, sort.column, sort.descending)), [rows, sort]);
  const lines = useVirtualizer({ count: shown.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 12 });
  const template = `repeat(${head.length}, minmax(110px, 1fr))`;
  return (
    <div className="values">
      <p className="faint values-count">
        {grouped(total ?? rows.length)} rows, {head.length} columns
        {total !== undefined && total > rows.length ? `; the first ${grouped(rows.length)} are shown` : ""}
      </p>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- long tables are scrolled with keys */}
      <div ref={box} className="values-box" tabIndex={0} role="table" aria-label="Values">
        <div className="values-head" role="row" style={{ gridTemplateColumns: template }}>
          {head.map((name, at) => (
            <button
              key={`${name}-${at}`}
              type="button"
              role="columnheader"
              onClick={() => setSort({ column: at, descending: sort?.column === at && !sort.descending })}
            >
              <span className="clip">{name}</span>
              {sort?.column === at && <Icon name={sort.descending ? "down" : "up"} />}
            </button>
          ))}
        </div>
        <div style={{ height: lines.getTotalSize(), position: "relative" }}>
          {lines.getVirtualItems().map((item) => (
            <div key={item.key} className="values-row" role="row" style={{ gridTemplateColumns: template, transform: `translateY(${item.start}px)` }}>
              {head.map((name, at) => (
                <span key={`${name}-${at}`} role="cell" className="clip" title={shown[item.index]?.[at]}>
                  {shown[item.index]?.[at]}
                </span>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
