/** The GPUs of a node as tiles: who holds each, how busy it is, how full its memory. Colour by team. */
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import type { Gpu, Node } from "../../api/cluster";
import { colourOf } from "../../lib/colour";
import { bytes, short } from "../../lib/format";
import { useSeries } from "../table/sparkline";
import "./gpu-tiles.css";

/** The last value of a metric of a run; null while there is none. */
export function useLast(run: string | undefined, key: string): number | null {
  const want = useMemo(() => (run === undefined ? null : { runs: [run], key, points: 32, span: null, orphans: false }), [run, key]);
  const { series } = useSeries(want);
  const last = series[0]?.last;
  return last?.[last.length - 1] ?? null;
}

export function GpuTiles({ node, runOf }: { node: Node; runOf: (job: string) => string | undefined }): ReactElement {
  if (node.gpus.length === 0) {
    return <p className="faint" style={{ padding: "0 12px 12px" }}>No GPU: it runs jobs that need none.</p>;
  }
  return (
    <div className="tiles">
      {node.gpus.map((gpu) => (
        <Tile key={gpu.index} gpu={gpu} runOf={runOf} out={node.state !== "ready"} />
      ))}
    </div>
  );
}

function Tile({ gpu, runOf, out }: { gpu: Gpu; runOf: (job: string) => string | undefined; out: boolean }): ReactElement {
  const run = gpu.holders.map((holder) => runOf(holder.job_id)).find((id) => id !== undefined);
  const busy = useLast(run, `system/gpu_${gpu.index}_utilization_percentage`);
  const used = useLast(run, `system/gpu_${gpu.index}_memory_usage_megabytes`);
  const free = gpu.holders.length === 0;
  const memory = used === null ? null : gpu.memory_bytes > 0 ? (used * 1e6) / gpu.memory_bytes : null;
  return (
    <div className={`tile${free ? " free" : ""}${out ? " out" : ""}`} aria-label={`GPU ${gpu.index}`}>
      <header>
        <b>{gpu.index}</b>
        <span className="faint clip" title={gpu.vendor}>
          {gpu.type}
          {gpu.memory_bytes > 0 && ` ${bytes(gpu.memory_bytes)}`}
        </span>
      </header>
      <div className="tile-holders">
        {gpu.holders.map((holder, at) => (
          <div key={`${holder.job_id}-${at}`} className="tile-holder" style={{ flexGrow: holder.share, borderLeftColor: colourOf(holder.team), background: `color-mix(in srgb, ${colourOf(holder.team)} 16%, var(--panel))` }} title={`${holder.name || "a job"} of ${holder.user || "someone"}, team ${holder.team}: ${short(holder.share)} of the GPU`}>
            {holder.job_id === "" ? (
              <span className="muted clip">{holder.team}</span>
            ) : (
              <Link className="clip" to="/app/jobs/$jobId" params={{ jobId: holder.job_id }} search={{}}>
                {holder.name}
              </Link>
            )}
            <span className="faint clip">
              {holder.user}
              {holder.share < 1 && ` · ${short(holder.share)}`}
            </span>
          </div>
        ))}
        {gpu.free > 0.001 && (
          <div className="tile-free" style={{ flexGrow: gpu.free }}>
            {out ? "out of service" : free ? "free" : `${short(gpu.free)} free`}
          </div>
        )}
      </div>
      <Meter name="use" share={busy === null ? null : busy / 100} words={busy === null ? "—" : `${short(busy)} %`} />
      <Meter name="mem" share={memory} words={used === null ? "—" : bytes(used * 1e6)} />
    </div>
  );
}

export function Meter({ name, share, words }: { name: string; share: number | null; words: string }): ReactElement {
  return (
    <div className="meter" title={`${name} ${words}`}>
      <span className="faint">{name}</span>
      <span className="meter-track">{share !== null && <span style={{ width: `${Math.min(100, Math.max(0, share * 100))}%` }} />}</span>
      <span className="num">{words}</span>
    </div>
  );
}
