/** All GPUs of the cluster at a glance: a square each, coloured by the team that holds it. */
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import type { Cluster } from "../../api/cluster";
import { count, short } from "../../lib/format";
import { cellWords, chosenNodes, IDLE, OUT, partsOf, teamOf } from "../../lib/gpu-map";
import "./gpu-map.css";

/** GPUs up to which each has its square; above, teams have bars of their share. */
const MOST_SQUARES = 640;

export function GpuStrip({ cluster }: { cluster: Cluster }): ReactElement | null {
  const parts = useMemo(() => partsOf(cluster.nodes), [cluster.nodes]);
  const colours = useMemo(() => new Map(parts.teams.map(({ team, colour }) => [team, colour])), [parts]);
  const squares = useMemo(() => {
    const rank = new Map([...parts.teams.map(({ team }) => team), IDLE, OUT].map((team, at) => [team, at]));
    return chosenNodes(cluster.nodes, "")
      .flatMap((node) => node.gpus.map((gpu) => ({ team: teamOf(node, gpu), share: 1 - gpu.free, key: `${node.node_id}/${gpu.index}`, words: cellWords(node, gpu, null) })))
      .toSorted((a, b) => (rank.get(a.team) ?? 0) - (rank.get(b.team) ?? 0));
  }, [cluster.nodes, parts]);
  if (squares.length === 0) {
    return null;
  }
  const legend = [...parts.teams, ...(parts.idle > 0.001 ? [{ team: "idle", gpus: parts.idle, colour: "" }] : []), ...(parts.out > 0 ? [{ team: OUT, gpus: parts.out, colour: "" }] : [])];
  return (
    <section className="gpu-strip" aria-label="GPUs by team">
      {squares.length <= MOST_SQUARES ? (
        <Link to="/app/nodes" search={{}} className="gpu-squares" aria-label={`${count(squares.length, "GPU")}: ${legend.map(({ team, gpus }) => `${team} ${short(gpus)}`).join(", ")}`}>
          {squares.map(({ key, team, words, share }) => (
            <i key={key} className={team === OUT ? "out" : ""} title={words} style={team === IDLE || team === OUT ? undefined : { background: squareFill(colours.get(team) ?? "", share) }} />
          ))}
        </Link>
      ) : (
        <Link to="/app/nodes" search={{}} className="gpu-bar" aria-label="GPUs by team">
          {legend.map(({ team, gpus, colour }) => (
            <i key={team} className={team === OUT ? "out" : ""} title={`${team}: ${count(gpus, "GPU")}`} style={{ flexGrow: gpus, ...(colour === "" ? {} : { background: colour }) }} />
          ))}
        </Link>
      )}
      <ul className="gpu-legend">
        {legend.map(({ team, gpus, colour }) => (
          <li key={team}>
            <i className={team === OUT ? "out" : ""} style={colour === "" ? undefined : { background: colour }} />
            {team} <span className="muted">{count(gpus, "GPU")}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A part of a GPU fills a part of its square. */
export function squareFill(colour: string, share: number): string {
  return share > 0.999 ? colour : `linear-gradient(to top, ${colour} ${Math.round(share * 100)}%, var(--sunk) 0)`;
}
