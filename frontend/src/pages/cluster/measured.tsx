/** How busy the nodes' GPUs, processors and memory were while jobs ran on them, as sampled. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, type ReactElement } from "react";

import { loadQuery } from "../../api/load";
import { short } from "../../lib/format";
import { loadLines, loadPath, type LoadLine } from "../../lib/load";
import { ErrorCard } from "../../ui/parts";

const WIDTH = 900;
const HEIGHT = 90;
const POINTS = 90;
const INK: Record<LoadLine["name"], string> = { GPU: "var(--green)", CPU: "var(--blue)", memory: "var(--violet)" };

export function Measured({ since, until }: { since: number; until: number }): ReactElement {
  const history = useQuery({ ...loadQuery(since, until, POINTS), placeholderData: (before) => before });
  const lines = useMemo(() => (history.data === undefined ? [] : loadLines(history.data, until)), [history.data, until]);
  return (
    <div className="measured" role="group" aria-label="Measured use">
      <div className="row wrap held-teams">
        <b>Measured use</b>
        {lines.map((line) => (
          <span key={line.name} className="row" style={{ gap: 5 }}>
            <span className="dot" style={{ background: INK[line.name] }} />
            {line.name} <span className="muted">{short(line.mean)} % on average</span>
          </span>
        ))}
        {history.data !== undefined && lines.length === 0 && <span className="faint">No job was sampled in this time.</span>}
      </div>
      {history.error !== null && <ErrorCard title="The measured use could not be read" error={history.error} retry={() => void history.refetch()} />}
      {lines.length > 0 && (
        <div className="held">
          <div className="held-scale faint" aria-hidden="true">
            <span>100 %</span>
            <span>0</span>
          </div>
          <svg className="held-bars" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={lines.map((line) => `${line.name} ${short(line.mean)} % on average`).join(", ")}>
            {lines.map((line) => (
              <path key={line.name} d={loadPath(line, WIDTH, HEIGHT)} fill="none" stroke={INK[line.name]} strokeWidth={1.6} vectorEffect="non-scaling-stroke" />
            ))}
          </svg>
        </div>
      )}
    </div>
  );
}
