/** The cluster as a heat map: a row a node, a cell a GPU; by team, by use, by health. Rows are drawn as they come into sight. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type ReactElement } from "react";

import type { Gpu, Node } from "../../api/cluster";
import { ramp } from "../../lib/colour";
import { count } from "../../lib/format";
import { cellWords, IDLE, OUT, partsOf, teamOf } from "../../lib/gpu-map";
import { WordBadge } from "../job/parts";
import { squareFill } from "./gpu-strip";
import "./gpu-map.css";

export type HeatBy = "team" | "use" | "health";

const ROW = 26;
/** Nodes side by side where the page is wide enough for more than one. */
const COLUMN = 380;
const HEALTH: Record<string, string> = { ok: "var(--green)", warn: "var(--amber)", fail: "var(--red)" };

interface Props {
  nodes: readonly Node[];
  by: HeatBy;
  /** how busy a GPU is in percent, where its job samples it */
  busyOf: (node: Node, gpu: Gpu) => number | null;
  chosen: string | undefined;
  onChoose: (node: string | undefined) => void;
}

export function HeatMap({ nodes, by, busyOf, chosen, onChoose }: Props): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(COLUMN * 2);
  useEffect(() => {
    const element = box.current;
    if (element === null) {
      return undefined;
    }
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const across = Math.max(1, Math.floor(width / COLUMN));
  const colours = useMemo(() => new Map(partsOf(nodes).teams.map(({ team, colour }) => [team, colour])), [nodes]);
  const most = useMemo(() => Math.max(1, ...nodes.map((node) => node.gpus.length)), [nodes]);
  const rows = useVirtualizer({ count: Math.ceil(nodes.length / across), getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 10 });
  return (
    <div ref={box} className="heat" role="grid" aria-label="GPUs by node" aria-rowcount={nodes.length}>
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((item) => (
          <div key={item.key} className="heat-line" role="presentation" style={{ transform: `translateY(${item.start}px)`, gridTemplateColumns: `repeat(${across}, minmax(0, 1fr))` }}>
            {nodes.slice(item.index * across, (item.index + 1) * across).map((node) => (
              <div key={node.node_id} role="row" className={`heat-row${node.node_id === chosen ? " chosen" : ""}`}>
                <button type="button" role="gridcell" className="heat-name clip" aria-expanded={node.node_id === chosen} title={`${node.node_id}: ${node.state}${node.note === "" ? "" : `, ${node.note}`}`} onClick={() => onChoose(node.node_id === chosen ? undefined : node.node_id)}>
                  {node.node_id}
                </button>
                <span className="heat-cells" role="gridcell" style={{ gridTemplateColumns: `repeat(${Math.max(8, most)}, minmax(6px, 20px))` }}>
                  {node.gpus.map((gpu) => (
                    <Cell key={gpu.index} node={node} gpu={gpu} by={by} busy={busyOf(node, gpu)} colours={colours} />
                  ))}
                  {node.gpus.length === 0 && <span className="faint">no GPU</span>}
                </span>
                <span role="gridcell" className="heat-state">{node.state === "ready" && node.health === "ok" ? null : <WordBadge word={node.state === "ready" ? node.health : node.state} />}</span>
              </div>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

function Cell({ node, gpu, by, busy, colours }: { node: Node; gpu: Gpu; by: HeatBy; busy: number | null; colours: ReadonlyMap<string, string> }): ReactElement {
  const team = teamOf(node, gpu);
  const fill = team === OUT ? undefined : by === "team" ? (team === IDLE ? undefined : squareFill(colours.get(team) ?? "#888888", 1 - gpu.free)) : by === "health" ? (HEALTH[node.health] ?? "var(--ink-3)") : busy === null ? undefined : ramp(busy / 100);
  return <i className={`heat-cell${team === OUT ? " out" : ""}`} title={cellWords(node, gpu, busy)} style={fill === undefined ? undefined : { background: fill }} />;
}

/** What the colours mean. */
export function HeatLegend({ nodes, by }: { nodes: readonly Node[]; by: HeatBy }): ReactElement {
  if (by === "use") {
    return (
      <ul className="gpu-legend" aria-label="Colours">
        {[0, 25, 50, 75, 100].map((share) => (
          <li key={share}>
            <i style={{ background: ramp(share / 100) }} />
            {share} %
          </li>
        ))}
        <li>
          <i />
          not measured
        </li>
      </ul>
    );
  }
  if (by === "health") {
    return (
      <ul className="gpu-legend" aria-label="Colours">
        {([["ok", "healthy"], ["warn", "warning"], ["fail", "failing"]] as const).map(([key, word]) => (
          <li key={key}>
            <i style={{ background: HEALTH[key] }} />
            {word} <span className="muted">{count(nodes.filter((node) => node.health === key).length, "node")}</span>
          </li>
        ))}
      </ul>
    );
  }
  const { teams, idle, out } = partsOf(nodes);
  return (
    <ul className="gpu-legend" aria-label="Colours">
      {teams.map(({ team, gpus, colour }) => (
        <li key={team}>
          <i style={{ background: colour }} />
          {team} <span className="muted">{count(gpus, "GPU")}</span>
        </li>
      ))}
      {idle > 0.001 && (
        <li>
          <i />
          idle <span className="muted">{count(idle, "GPU")}</span>
        </li>
      )}
      {out > 0 && (
        <li>
          <i className="out" />
          out of service <span className="muted">{count(out, "GPU")}</span>
        </li>
      )}
    </ul>
  );
}
