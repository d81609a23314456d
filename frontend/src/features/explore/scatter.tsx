/** One dot a run: two columns as place, a third as colour. */
import { useNavigate } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { colourOf, ramp } from "../../lib/colour";
import { scaleOf, type Explored, type Scale } from "../../lib/explore";
import { full, short } from "../../lib/format";
import { useSize } from "./use-size";

const EDGE = { left: 56, right: 32, top: 12, bottom: 40 };

/** The axes of a plot: grid, ticks, names. */
export function Axes(props: { x: Scale | null; y: Scale; width: number; height: number; xTitle: string; yTitle: string; left?: number }): ReactElement {
  const left = props.left ?? EDGE.left;
  const wide = props.width - left - EDGE.right;
  const high = props.height - EDGE.top - EDGE.bottom;
  return (
    <g>
      {props.y.ticks.map((tick) => (
        <g key={tick.label} transform={`translate(0 ${EDGE.top + high * (1 - tick.at)})`}>
          <line x1={left} x2={left + wide} stroke="var(--grid)" />
          <text x={left - 6} dy="4" textAnchor="end" className="tick-text">
            {tick.label}
          </text>
        </g>
      ))}
      {props.x?.ticks.map((tick) => (
        <g key={tick.label} transform={`translate(${left + wide * tick.at} 0)`}>
          <line y1={EDGE.top} y2={EDGE.top + high} stroke="var(--grid)" />
          <text y={EDGE.top + high + 14} textAnchor="middle" className="tick-text">
            {tick.label}
          </text>
        </g>
      ))}
      <text x={left + wide / 2} y={props.height - 6} textAnchor="middle" className="axis-text">
        {props.xTitle}
      </text>
      <text transform={`translate(12 ${EDGE.top + high / 2}) rotate(-90)`} textAnchor="middle" className="axis-text">
        {props.yTitle}
      </text>
    </g>
  );
}

export function ScatterPlot({ data, titles }: { data: readonly Explored[]; titles: readonly string[] }): ReactElement {
  const { box, width, height } = useSize<HTMLDivElement>(440);
  const navigate = useNavigate();
  const [x, y, colour] = useMemo(
    () => [0, 1, 2].map((at) => scaleOf(data.map((one) => one.values[at] ?? null), short)),
    [data],
  ) as [Scale, Scale, Scale];
  const wide = width - EDGE.left - EDGE.right;
  const high = height - EDGE.top - EDGE.bottom;
  const dots = data.flatMap((one) => {
    const left = x.at(one.values[0] ?? null);
    const top = y.at(one.values[1] ?? null);
    const share = titles[2] === undefined ? null : colour.at(one.values[2] ?? null);
    return left === null || top === null ? [] : [{ one, left, top, paint: share === null ? colourOf(one.id) : ramp(share) }];
  });
  return (
    <div ref={box}>
      <svg className="explore-plot" width={width} height={height} role="img" aria-label={`Scatter of ${titles.join(", ")}`}>
        <Axes x={x} y={y} width={width} height={height} xTitle={titles[0] ?? ""} yTitle={titles[1] ?? ""} />
        {dots.map(({ one, left, top, paint }) => (
          <circle
            key={one.id}
            cx={EDGE.left + wide * left}
            cy={EDGE.top + high * (1 - top)}
            r={4.5}
            fill={paint}
            fillOpacity={0.8}
            stroke="var(--panel)"
            className="dot-run"
            onClick={() => void navigate({ to: "/app/runs/$runId", params: { runId: one.id }, search: {} })}
          >
            <title>{[one.name, ...titles.map((title, at) => `${title} ${full(one.values[at])}`)].join("\n")}</title>
          </circle>
        ))}
      </svg>
      {titles[2] !== undefined && <Legend scale={colour} title={titles[2]} />}
      <p className="faint">
        {dots.length} of {data.length} runs have both values.
      </p>
    </div>
  );
}

function Legend({ scale, title }: { scale: Scale; title: string }): ReactElement {
  return (
    <div className="row wrap legend">
      <span className="muted">{title}</span>
      {scale.ticks.map((tick) => (
        <span key={tick.label} className="row" style={{ gap: 4 }}>
          <span className="dot" style={{ background: ramp(tick.at) }} />
          {tick.label}
        </span>
      ))}
    </div>
  );
}
