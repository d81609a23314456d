/** One line a run over all axes; drag on an axis to keep only what passes there. */
import { useMemo, useState, type PointerEvent, type ReactElement } from "react";

import { ramp } from "../../lib/colour";
import { scaleOf, type Explored, type Scale } from "../../lib/explore";
import { count, short } from "../../lib/format";
import { useSize } from "./use-size";

const TOP = 34;
const BOTTOM = 12;
const SIDE = 64;

type Brush = readonly [number, number];

/** Whether a run passes every brush. */
export function passes(one: Explored, scales: readonly Scale[], brushes: ReadonlyMap<number, Brush>): boolean {
  return [...brushes].every(([axis, [low, high]]) => {
    const at = scales[axis]?.at(one.values[axis] ?? null) ?? null;
    return at !== null && at >= low && at <= high;
  });
}

export function ParallelPlot({ data, titles }: { data: readonly Explored[]; titles: readonly string[] }): ReactElement {
  const { box, width, height } = useSize<HTMLDivElement>(440);
  const [brushes, setBrushes] = useState<ReadonlyMap<number, Brush>>(new Map());
  const [drag, setDrag] = useState<{ axis: number; from: number } | null>(null);
  const [lit, setLit] = useState<string | null>(null);
  const scales = useMemo(() => titles.map((_, at) => scaleOf(data.map((one) => one.values[at] ?? null), short)), [data, titles]);
  const high = height - TOP - BOTTOM;
  const left = (axis: number): number => SIDE + ((width - 2 * SIDE) * axis) / Math.max(1, titles.length - 1);
  const lastScale = scales[scales.length - 1];
  const share = (event: PointerEvent<SVGRectElement>): number => {
    const size = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, 1 - (event.clientY - size.top) / size.height));
  };
  const brush = (axis: number, range: Brush | null): void => {
    const next = new Map(brushes);
    if (range === null) {
      next.delete(axis);
    } else {
      next.set(axis, range);
    }
    setBrushes(next);
  };
  const lines = data.map((one) => {
    let path = "";
    let pen = false;
    scales.forEach((scale, axis) => {
      const at = scale.at(one.values[axis] ?? null);
      if (at === null) {
        pen = false;
        return;
      }
      path += `${pen ? "L" : "M"}${left(axis).toFixed(1)} ${(TOP + high * (1 - at)).toFixed(1)}`;
      pen = true;
    });
    return { one, path, on: passes(one, scales, brushes), colour: ramp(lastScale?.at(one.values[scales.length - 1] ?? null) ?? 0) };
  });
  const through = lines.filter((line) => line.on).length;
  return (
    <div ref={box}>
      <svg className="explore-plot" width={width} height={height} role="img" aria-label={`Parallel coordinates of ${titles.join(", ")}`}>
        <g fill="none">
          {lines.filter((line) => !line.on).map(({ one, path }) => (
            <path key={one.id} d={path} stroke="var(--line-strong)" strokeOpacity={0.35} />
          ))}
          {lines.filter((line) => line.on).map(({ one, path, colour }) => (
            <path
              key={one.id}
              d={path}
              stroke={colour}
              strokeOpacity={lit === null ? 0.6 : lit === one.id ? 1 : 0.1}
              strokeWidth={lit === one.id ? 2.5 : 1.3}
              onPointerEnter={() => setLit(one.id)}
              onPointerLeave={() => setLit(null)}
            >
              <title>{one.name}</title>
            </path>
          ))}
        </g>
        {scales.map((scale, axis) => (
          <g key={titles[axis]} transform={`translate(${left(axis)} 0)`}>
            <text y={16} textAnchor="middle" className="axis-text">
              {titles[axis]}
            </text>
            <line y1={TOP} y2={TOP + high} stroke="var(--ink-3)" />
            {scale.ticks.map((tick) => (
              <text key={tick.label} x={-5} y={TOP + high * (1 - tick.at) + 4} textAnchor="end" className="tick-text halo">
                {tick.label}
              </text>
            ))}
            {brushes.has(axis) && <BrushBox brush={brushes.get(axis) ?? [0, 1]} top={TOP} high={high} />}
            <rect
              x={-12}
              y={TOP}
              width={24}
              height={high}
              fill="transparent"
              style={{ cursor: "ns-resize", touchAction: "none" }}
              onPointerDown={(event) => {
                event.currentTarget.setPointerCapture(event.pointerId);
                setDrag({ axis, from: share(event) });
                brush(axis, null);
              }}
              onPointerMove={(event) => {
                if (drag?.axis === axis) {
                  const to = share(event);
                  brush(axis, [Math.min(drag.from, to), Math.max(drag.from, to)]);
                }
              }}
              onPointerUp={() => setDrag(null)}
            />
          </g>
        ))}
      </svg>
      <p className="faint">
        {brushes.size === 0 ? "Drag along an axis to keep only the runs that pass there." : `${count(through, "run")} of ${data.length} pass.`}
        {brushes.size > 0 && (
          <button type="button" className="btn quiet small" onClick={() => setBrushes(new Map())}>
            Show all
          </button>
        )}
      </p>
    </div>
  );
}

function BrushBox({ brush, top, high }: { brush: Brush; top: number; high: number }): ReactElement {
  return <rect x={-8} width={16} y={top + high * (1 - brush[1])} height={Math.max(2, high * (brush[1] - brush[0]))} fill="var(--accent)" fillOpacity={0.25} />;
}
