/** Bars, one a run, and boxes, one a group of runs. */
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { colourOf } from "../../lib/colour";
import { quartiles, scaleOf, type Explored } from "../../lib/explore";
import { count, full, short } from "../../lib/format";
import { Axes } from "./scatter";
import { useSize } from "./use-size";

const MOST = 60;

export function BarPlot({ data, title }: { data: readonly Explored[]; title: string }): ReactElement {
  const rows = useMemo(
    () =>
      data
        .map((one) => ({ one, value: Number(one.values[0] ?? Number.NaN) }))
        .filter((row) => row.one.values[0] !== null && Number.isFinite(row.value))
        .sort((a, b) => b.value - a.value),
    [data],
  );
  const shown = rows.slice(0, MOST);
  const most = Math.max(...shown.map((row) => Math.abs(row.value)), Number.MIN_VALUE);
  return (
    <div className="bars" role="img" aria-label={`Bars of ${title}`}>
      <svg className="explore-plot" width="100%" height={shown.length * 22 + 8}>
        {shown.map(({ one, value }, at) => (
          <g key={one.id} transform={`translate(0 ${at * 22 + 4})`}>
            <Link to="/app/runs/$runId" params={{ runId: one.id }} search={{}}>
              <text x={150} y={13} textAnchor="end" className="tick-text ink">
                {one.name.length > 22 ? `${one.name.slice(0, 21)}…` : one.name}
              </text>
            </Link>
            <svg x={158} width="calc(100% - 230px)" height={18} preserveAspectRatio="none">
              <rect y={2} width={`${(Math.abs(value) / most) * 100}%`} height={14} rx={2} fill={colourOf(one.id)}>
                <title>{`${one.name}: ${full(one.values[0])}`}</title>
              </rect>
            </svg>
            <text x="100%" dx={-64} y={13} className="tick-text ink">
              {short(value)}
            </text>
          </g>
        ))}
      </svg>
      {rows.length > MOST && <p className="faint">The first {MOST} of {rows.length}.</p>}
      {rows.length === 0 && <p className="faint">None of the runs has a numeric value here.</p>}
    </div>
  );
}

export function BoxPlot({ data, titles }: { data: readonly Explored[]; titles: readonly string[] }): ReactElement {
  const { box, width, height } = useSize<HTMLDivElement>(440);
  const groups = useMemo(() => {
    const found = new Map<string, number[]>();
    for (const one of data) {
      const value = Number(one.values[0] ?? Number.NaN);
      if (one.values[0] !== null && Number.isFinite(value)) {
        const word = one.values[1] === null || one.values[1] === undefined ? "—" : String(one.values[1]);
        found.set(word, [...(found.get(word) ?? []), value]);
      }
    }
    const words = [...found.keys()].sort(new Intl.Collator("en", { numeric: true }).compare).slice(0, 30);
    return words.map((word) => ({ word, values: found.get(word) ?? [], box: quartiles(found.get(word) ?? []) }));
  }, [data]);
  const y = useMemo(() => scaleOf(groups.flatMap((group) => group.values), short), [groups]);
  const high = height - 12 - 40;
  const wide = width - 56 - 16;
  const top = (value: number): number => 12 + high * (1 - (y.at(value) ?? 0));
  const step = wide / Math.max(1, groups.length);
  return (
    <div ref={box}>
      <svg className="explore-plot" width={width} height={height} role="img" aria-label={`Boxes of ${titles.join(" by ")}`}>
        <Axes x={null} y={y} width={width} height={height} xTitle={titles[1] ?? ""} yTitle={titles[0] ?? ""} />
        {groups.map((group, at) => {
          const middle = 56 + step * (at + 0.5);
          const half = Math.min(34, step * 0.32);
          const five = group.box;
          return five === null ? null : (
            <g key={group.word} stroke="var(--accent)" fill="var(--accent-soft)">
              <title>{`${group.word}: median ${short(five.median)}, ${count(group.values.length, "run")}`}</title>
              <line x1={middle} x2={middle} y1={top(five.low)} y2={top(five.q1)} />
              <line x1={middle} x2={middle} y1={top(five.q3)} y2={top(five.high)} />
              <rect x={middle - half} width={half * 2} y={top(five.q3)} height={Math.max(1, top(five.q1) - top(five.q3))} rx={2} />
              <line x1={middle - half} x2={middle + half} y1={top(five.median)} y2={top(five.median)} strokeWidth={2} />
              {five.outliers.map((value, place) => (
                <circle key={`${value}-${place}`} cx={middle} cy={top(value)} r={2.5} fill="none" />
              ))}
              <text x={middle} y={height - 24} textAnchor="middle" className="tick-text" stroke="none">
                {group.word}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}
