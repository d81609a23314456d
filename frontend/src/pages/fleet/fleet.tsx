/** The fleet over time: what each GPU was doing, how many jobs waited and how long, and what if. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState, type ReactElement } from "react";

import { fleetQuery, type FleetHistory, type QueueClass } from "../../api/usage";
import { count, duration, exact } from "../../lib/format";
import { CELLS, curve, stripes } from "../../lib/usage";
import { Icon } from "../../ui/icon";
import { ErrorCard, PageHead, Segments, Skeleton, YardLine } from "../../ui/parts";
import "../usage/usage.css";
import "./fleet.css";

const SPANS = [
  ["1", "Day"],
  ["7", "Week"],
  ["30", "Month"],
] as const;
const POINTS: Record<string, number> = { "1": 96, "7": 168, "30": 240 };
const LINES: Record<string, string> = {
  urgent: "var(--red)",
  high: "var(--amber)",
  normal: "var(--blue)",
  low: "var(--green)",
  scavenge: "var(--ink-3)",
};

export function FleetPage(): ReactElement {
  const search: Record<string, string> = useSearch({ from: "/app/fleet" });
  const navigate = useNavigate();
  const days = SPANS.find(([one]) => one === search.days)?.[0] ?? "7";
  const found = useQuery({ ...fleetQuery(Number(days), POINTS[days] ?? 168), placeholderData: (before) => before });
  const choose = (next: string): void =>
    void navigate({ to: "/app/fleet", search: { ...search, days: next }, replace: true });
  const gpus = found.data?.gpus.length ?? 0;
  return (
    <>
      <PageHead title="Fleet over time" facts={found.data !== undefined && <span>{count(gpus, "GPU")}</span>}>
        <Segments label="Time" value={days} options={SPANS} onChange={choose} />
        <Link className="btn" to="/app/usage" search={{}}>
          <Icon name="usage" />
          Usage
        </Link>
      </PageHead>
      <div className="page-body use-stack">
        {found.error !== null && (
          <ErrorCard title="The fleet could not be read" error={found.error} retry={() => void found.refetch()} />
        )}
        {found.data === undefined ? found.error === null && <Skeleton /> : <Fleet found={found.data} />}
        <section className="card">
          <div className="card-head">
            <h2>What if?</h2>
          </div>
          <p className="use-pad muted">
            Replay the last month&apos;s jobs with more nodes, fewer, or another policy, beside today&apos;s:
          </p>
        </section>
        <YardLine line="yard simulate --from live --add 8xH100" />
      </div>
    </>
  );
}

function Fleet({ found }: { found: FleetHistory }): ReactElement {
  if (found.gpus.length === 0) {
    return (
      <div className="empty">
        <h2>No GPU was there in this time</h2>
        <p className="muted">Nodes that join are shown here from then on.</p>
      </div>
    );
  }
  return (
    <>
      <Heat found={found} />
      <Waiting found={found} />
    </>
  );
}

function Heat({ found }: { found: FleetHistory }): ReactElement {
  const map = useRef<HTMLDivElement>(null);
  const [told, setTold] = useState("");
  const seen = new Set(found.gpus.flatMap((row) => [...row.cells]));
  useEffect(() => {
    const element = map.current;
    const hear = (event: PointerEvent): void => setTold(cellUnder(event, found));
    element?.addEventListener("pointermove", hear);
    return () => element?.removeEventListener("pointermove", hear);
  }, [found]);
  return (
    <section className="card" aria-label="GPUs over time">
      <div className="fleet-map" ref={map}>
        {found.gpus.map((row, at) => {
          const isFirst = found.gpus[at - 1]?.node !== row.node;
          return (
            <div key={`${row.node} ${row.gpu}`} style={{ display: "contents" }}>
              <span className={`clip${isFirst ? " fleet-first" : ""}`}>
                {isFirst && <b>{row.node} </b>}
                <span className="muted">{row.gpu}</span>
              </span>
              <div
                className={`fleet-row${isFirst ? " fleet-first" : ""}`}
                role="img"
                aria-label={`${row.node} GPU ${row.gpu}: used ${row.used_percent} % of the time`}
                data-row={at}
                style={{ background: stripes(row.cells, row.levels) }}
              />
              <span className={`use-number muted${isFirst ? " fleet-first" : ""}`}>
                {row.used_percent.toFixed(0)} %
              </span>
            </div>
          );
        })}
        <span />
        <span className="fleet-times muted">
          <span>{exact(found.since_ms)}</span>
          <span>{told}</span>
          <span>{exact(found.until_ms)}</span>
        </span>
        <span />
      </div>
      <ul className="fleet-legend">
        {Object.entries(CELLS)
          .filter(([letter]) => seen.has(letter))
          .map(([letter, { word, colour }]) => (
            <li key={letter}>
              <i style={{ background: colour }} />
              {word}
            </li>
          ))}
      </ul>
    </section>
  );
}

/** Say what the pointer is over: which GPU, when, doing what. */
function cellUnder(event: PointerEvent, found: FleetHistory): string {
  const target = event.target instanceof HTMLElement ? event.target : null;
  const row = found.gpus[Number(target?.dataset.row ?? "-1")];
  if (target === null || row === undefined) {
    return "";
  }
  const box = target.getBoundingClientRect();
  const at = Math.min(row.cells.length - 1, Math.floor(((event.clientX - box.left) / box.width) * row.cells.length));
  const state = CELLS[row.cells[at] ?? "."]?.word ?? "";
  return `${row.node} GPU ${row.gpu}, ${exact(found.since_ms + at * found.width_ms)}: ${state.toLowerCase()}`;
}

function Waiting({ found }: { found: FleetHistory }): ReactElement {
  const most = Math.max(1, ...found.queue.flatMap((one) => one.depth));
  return (
    <section className="card">
      <div className="card-head">
        <h2>Jobs waiting</h2>
        <span className="muted">up to {most} at once</span>
      </div>
      <svg
        className="fleet-depth"
        viewBox="0 0 100 100"
        preserveAspectRatio="none"
        role="img"
        aria-label="Jobs waiting over time"
      >
        {found.queue.map((one) => (
          <polyline key={one.priority} points={curve(one.depth, most)} stroke={LINES[one.priority] ?? "var(--ink-2)"} />
        ))}
      </svg>
      <table className="plain">
        <thead>
          <tr>
            <th>Class</th>
            <th className="use-number">Started</th>
            <th className="use-number">Half waited less than</th>
            <th className="use-number">Nine of ten less than</th>
          </tr>
        </thead>
        <tbody>
          {found.queue.map((one) => (
            <Class key={one.priority} one={one} />
          ))}
        </tbody>
      </table>
      {found.queue.length === 0 && <p className="muted use-pad">No job waited in this time.</p>}
    </section>
  );
}

function Class({ one }: { one: QueueClass }): ReactElement {
  const wait = (seconds: number | null): string => (seconds === null ? "—" : duration(seconds * 1000));
  return (
    <tr>
      <td>
        <span className="fleet-legend" style={{ padding: 0 }}>
          <span>
            <i style={{ background: LINES[one.priority] }} />
            {one.priority}
          </span>
        </span>
      </td>
      <td className="use-number">{one.started}</td>
      <td className="use-number">{wait(one.p50_wait_seconds)}</td>
      <td className="use-number">{wait(one.p90_wait_seconds)}</td>
    </tr>
  );
}
