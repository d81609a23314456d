/** What a sweep found so far: the best over time, how much each parameter matters, the rungs. */
import { useMemo, type ReactElement } from "react";

import type { SweepDetail } from "../../api/sweeps";
import { Axes } from "../../features/explore/scatter";
import { useSize } from "../../features/explore/use-size";
import { scaleOf } from "../../lib/explore";
import { full, short } from "../../lib/format";
import { bestSoFar } from "../../lib/sweeps";

const EDGE = { left: 56, right: 32, top: 12, bottom: 40 };

/** A dot for each trial that ended by itself, and the best until then as a line. */
export function BestChart({ detail }: { detail: SweepDetail }): ReactElement {
  const { box, width } = useSize<HTMLDivElement>(260);
  const height = 260;
  const reached = useMemo(() => bestSoFar(detail.trials, detail.sweep.goal), [detail.trials, detail.sweep.goal]);
  const x = useMemo(() => scaleOf([0, ...reached.map((_, at) => at + 1)], short), [reached]);
  const y = useMemo(() => scaleOf(reached.map(({ value }) => value), short), [reached]);
  const left = (at: number): number => EDGE.left + (width - EDGE.left - EDGE.right) * (x.at(at + 1) ?? 0);
  const top = (value: number): number => EDGE.top + (height - EDGE.top - EDGE.bottom) * (1 - (y.at(value) ?? 0));
  const path = reached.map(({ best }, at) => `${at === 0 ? "M" : "H"}${left(at)}${at === 0 ? " " : "V"}${top(best)}`).join("");
  return (
    <section className="card" aria-label="Best so far">
      <div className="card-head">
        <h2 className="grow">Best so far</h2>
      </div>
      <div ref={box} style={{ minHeight: height }}>
        {reached.length === 0 ? (
          <p className="muted">No trial has run to its end yet.</p>
        ) : (
          <svg className="explore-plot" width={width} height={height} role="img" aria-label={`Best ${detail.sweep.metric} over trials`}>
            <Axes x={x} y={y} width={width} height={height} xTitle="trials that ran to their end" yTitle={detail.sweep.metric} />
            <path d={path} fill="none" stroke="var(--accent)" strokeWidth={2} />
            {reached.map(({ number, value }, at) => (
              <circle key={number} cx={left(at)} cy={top(value)} r={3.5} fill="var(--ink-3)">
                <title>{`trial ${number}: ${full(value)}`}</title>
              </circle>
            ))}
          </svg>
        )}
      </div>
    </section>
  );
}

export function Importance({ detail }: { detail: SweepDetail }): ReactElement {
  return (
    <section className="card" aria-label="Importance of parameters">
      <div className="card-head">
        <h2 className="grow" title={detail.importance_method}>
          Importance
        </h2>
      </div>
      {detail.importance.length === 0 ? (
        <p className="muted">It is told once six trials have ended.</p>
      ) : (
        <ul className="sweep-bars">
          {detail.importance.map(({ name, share }) => (
            <li key={name}>
              <span className="clip">{name}</span>
              <span className="sweep-bar">
                <span style={{ width: `${Math.max(0.5, share * 100)}%` }} />
              </span>
              <span>{Math.round(share * 100)} %</span>
            </li>
          ))}
        </ul>
      )}
      <p className="faint">{detail.importance_method}.</p>
    </section>
  );
}

export function Rungs({ detail }: { detail: SweepDetail }): ReactElement | null {
  if (detail.rungs.length === 0) {
    return null;
  }
  const most = Math.max(...detail.rungs.map(({ reached }) => reached));
  return (
    <section className="card" aria-label="Rungs">
      <div className="card-head">
        <h2 className="grow">Rungs</h2>
      </div>
      <table className="plain">
        <thead>
          <tr>
            <th>Step</th>
            <th>Reached</th>
            <th aria-label="Part that went on" />
            <th>Went on</th>
            <th>Best</th>
            <th>To go on</th>
          </tr>
        </thead>
        <tbody>
          {detail.rungs.map((rung) => (
            <tr key={`${rung.bracket}-${rung.resource}`}>
              <td>
                {rung.resource}
                {rung.bracket > 0 && <span className="faint"> bracket {rung.bracket}</span>}
              </td>
              <td>{rung.reached}</td>
              <td style={{ width: "35%" }}>
                <span className="sweep-bar light" style={{ width: `${(100 * rung.reached) / most}%` }}>
                  <span style={{ width: `${(100 * rung.went_on) / rung.reached}%` }} />
                </span>
              </td>
              <td>{rung.went_on}</td>
              <td title={full(rung.best)}>{short(rung.best)}</td>
              <td title={full(rung.cutoff)}>{short(rung.cutoff)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
