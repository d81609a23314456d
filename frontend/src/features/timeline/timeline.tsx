/** The timeline: lanes over one axis of time. Dragging on it chooses a span for the charts. */
import { useState, type PointerEvent, type ReactElement } from "react";

import { clock, duration, exact } from "../../lib/format";
import { endsOf, type Lane } from "../../lib/timeline";
import "./timeline.css";

interface Props {
  lanes: readonly Lane[];
  onSpan?: (span: readonly [number, number]) => void;
}

export function Timeline({ lanes, onSpan }: Props): ReactElement {
  const [from, to] = endsOf(lanes);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const left = (time: number): string => `${((time - from) / (to - from)) * 100}%`;
  const width = (span: number): string => `max(2px, ${(span / (to - from)) * 100}%)`;
  const timeAt = (event: PointerEvent<HTMLElement>): number => {
    const box = event.currentTarget.getBoundingClientRect();
    return from + ((event.clientX - box.left) / box.width) * (to - from);
  };
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => from + (to - from) * share);
  return (
    <div className="timeline" role="img" aria-label="Timeline of the run">
      <div className="timeline-names">
        {lanes.map((lane) => (
          <div key={lane.name}>{lane.name}</div>
        ))}
      </div>
      <div
        className="timeline-lanes"
        style={{ cursor: onSpan === undefined ? undefined : "crosshair" }}
        onPointerDown={(event) => {
          if (onSpan !== undefined) {
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag([timeAt(event), timeAt(event)]);
          }
        }}
        onPointerMove={(event) => drag !== null && setDrag([drag[0], timeAt(event)])}
        onPointerUp={() => {
          if (drag !== null && Math.abs(drag[1] - drag[0]) > (to - from) / 200) {
            onSpan?.([Math.min(...drag), Math.max(...drag)]);
          }
          setDrag(null);
        }}
      >
        {lanes.map((lane) => (
          <div key={lane.name} className="timeline-lane">
            {lane.bars.map((bar) => (
              <span key={bar.from} className={`timeline-bar tone-${bar.tone}`} style={{ left: left(bar.from), width: width(bar.to - bar.from) }} title={`${bar.label}: ${exact(bar.from)} to ${exact(bar.to)}, ${duration(bar.to - bar.from)}`} />
            ))}
            {lane.marks.map((mark, at) => (
              <span key={`${mark.at}-${at}`} className={`timeline-mark tone-${mark.tone}`} style={{ left: left(mark.at) }} title={`${mark.label}: ${exact(mark.at)}`} />
            ))}
          </div>
        ))}
        {drag !== null && <span className="timeline-brush" style={{ left: left(Math.min(...drag)), width: width(Math.abs(drag[1] - drag[0])) }} />}
        <div className="timeline-ticks">
          {ticks.map((time) => (
            <span key={time} style={{ left: left(time) }} title={exact(time)}>
              {to - from > 86_400_000 ? exact(time).slice(5, 16) : clock(time)}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}
