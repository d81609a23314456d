/** A table of values, however long: rows are drawn as they come into sight. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState, type ReactElement } from "react";

import { grouped, short } from "../../lib/format";
import { histogram } from "../../lib/media";
import { matcher } from "../../lib/search";
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
  const [search, setSearch] = useState("");
  const kept = useMemo(() => {
    const wanted = matcher(search);
    return search.trim() === "" ? rows : rows.filter((row) => wanted(row.join(" ")));
  }, [rows, search]);
  const shown = useMemo(() => (sort === null ? kept : sorted(kept, sort.column, sort.descending)), [kept, sort]);
  const spreads = useMemo(() => head.map((_, at) => histogram(kept.map((row) => row[at] ?? ""))), [head, kept]);
  const lines = useVirtualizer({ count: shown.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 12 });
  const template = `repeat(${head.length}, minmax(110px, 1fr))`;
  return (
    <div className="values">
      <p className="faint values-count row">
        <input className="field small" type="search" aria-label="Filter rows" placeholder="Filter rows" value={search} onChange={(event) => setSearch(event.target.value)} />
        {kept.length < rows.length && `${grouped(kept.length)} of `}
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
              <Spread of={spreads[at] ?? null} />
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

/** How the numbers of a column are spread. */
function Spread({ of }: { of: ReturnType<typeof histogram> }): ReactElement | null {
  if (of === null) {
    return null;
  }
  const most = Math.max(...of.counts);
  return (
    <svg className="values-spread" width={60} height={16} aria-hidden="true">
      <title>{`${short(of.from)} to ${short(of.to)}`}</title>
      {of.counts.map((one, at) => (
        <rect key={at} x={at * 3} y={16 - (one / most) * 16} width={2} height={(one / most) * 16} />
      ))}
    </svg>
  );
}
