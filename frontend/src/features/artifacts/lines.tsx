/** Text with line numbers: only the lines on screen are drawn, so that long logs stay quick. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type ReactElement } from "react";

import { matcher } from "../../lib/search";

const LINE = 18;

/** The lines a query is in. */
export function hits(lines: readonly string[], query: string): number[] {
  if (query.trim() === "") {
    return [];
  }
  const wanted = matcher(query);
  return lines.flatMap((line, at) => (wanted(line) ? [at] : []));
}

export function Lines({ text, follow = false }: { text: string; follow?: boolean }): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(query);
  const found = useMemo(() => hits(lines, wanted), [lines, wanted]);
  const marked = useMemo(() => new Set(found), [found]);
  const rows = useVirtualizer({ count: lines.length, getScrollElement: () => box.current, estimateSize: () => LINE, overscan: 20 });
  const current = found[at % Math.max(1, found.length)];
  useEffect(() => {
    if (current !== undefined) {
      rows.scrollToIndex(current, { align: "center" });
    }
  }, [current, rows]);
  useEffect(() => {
    if (follow) {
      rows.scrollToIndex(lines.length - 1);
    }
  }, [follow, lines.length, rows]);
  const digits = String(lines.length).length;
  return (
    <div className="lines">
      <div className="row lines-bar">
        <input
          className="field"
          type="search"
          placeholder="Find in the text"
          aria-label="Find in the text"
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => event.key === "Enter" && setAt(at + 1)}
        />
        <span className="faint">{wanted === "" ? `${lines.length} lines` : `${found.length === 0 ? 0 : (at % found.length) + 1} of ${found.length}`}</span>
      </div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- long text is scrolled with keys */}
      <div ref={box} className="lines-box mono" tabIndex={0} role="region" aria-label="Text">
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((item) => (
            <div key={item.key} className={`line${marked.has(item.index) ? " hit" : ""}${item.index === current ? " now" : ""}`} style={{ transform: `translateY(${item.start}px)` }}>
              <span className="line-number" style={{ width: `${digits + 1}ch` }}>
                {item.index + 1}
              </span>
              <span className="line-text">{lines[item.index]}</span>
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
