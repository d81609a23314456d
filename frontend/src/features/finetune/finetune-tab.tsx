/** The fine-tuning tab of a run: predicted beside actual, memory by part, speed, and samples over steps. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactElement } from "react";

import { filesQuery, textQuery } from "../../api/artifacts";
import type { WholeRun } from "../../api/runs";
import { comparisons, memoryParts, samplesOf, SPEED, type Comparison, type MemoryPart } from "../../lib/finetune";
import { grouped, short } from "../../lib/format";
import { isLive } from "../../lib/states";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { Panel, type ChartSettings } from "../chart/panel";
import { Markdown } from "../markdown/markdown";
import "./finetune.css";

const REFRESH_MS = 10_000;
const FOLDER = "samples";
const SETTINGS: ChartSettings = {
  axis: "step",
  logX: false,
  logY: false,
  smoothing: 0,
  band: true,
  orphans: false,
  zoom: null,
  onZoom: () => undefined,
};

export function FineTuneTab({ whole, method }: { whole: WholeRun; method: string }): ReactElement {
  const last = useMemo(
    () =>
      new Map(whole.metrics.flatMap((one): [string, number][] => (typeof one.last === "number" ? [[one.key, one.last]] : []))),
    [whole.metrics],
  );
  return (
    <div className="page-body tune">
      <Facts last={last} method={method} />
      <Planned rows={comparisons(last)} live={isLive(whole.run.info.status)} />
      <Memory parts={memoryParts(last)} />
      <Speed whole={whole} />
      <Samples whole={whole} />
    </div>
  );
}

function Facts({ last, method }: { last: ReadonlyMap<string, number>; method: string }): ReactElement {
  const speed = last.get("tokens_per_second");
  const facts: [string, string][] = [
    ["Method", method],
    ["MFU", last.has("mfu") ? (last.get("mfu") ?? 0).toFixed(3) : "—"],
    ["Tokens/s", speed === undefined ? "—" : grouped(speed)],
    ["Peak memory", last.has("memory/peak_gib") ? `${short(last.get("memory/peak_gib"))} GiB` : "—"],
  ];
  return (
    <dl className="tune-facts">
      {facts.map(([word, value]) => (
        <div key={word}>
          <dt>{word}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Planned({ rows, live }: { rows: readonly Comparison[]; live: boolean }): ReactElement {
  return (
    <section className="card" aria-label="Plan and outcome">
      <div className="card-head">
        <h2>Predicted and actual</h2>
      </div>
      {rows.length === 0 ? (
        <p className="muted tune-pad">
          {live
            ? "A run on a GPU compares its plan with what came of it when it ends."
            : "This run was not compared with a plan: it did not run on a known GPU, or not to its end."}
        </p>
      ) : (
        <table className="plain">
          <thead>
            <tr>
              <th />
              <th className="num">Predicted</th>
              <th className="num">Actual</th>
              <th className="num">Prediction off by</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <tr key={one.what}>
                <td>{one.what}</td>
                <td className="num">
                  {short(one.predicted)} {one.unit}
                </td>
                <td className="num">{one.actual === null ? "—" : `${short(one.actual)} ${one.unit}`}</td>
                <td className="num">{one.off === null ? "—" : `${(one.off * 100).toFixed(1)} %`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Memory({ parts }: { parts: readonly MemoryPart[] }): ReactElement | null {
  const total = parts.reduce((sum, one) => sum + one.gib, 0);
  if (total === 0) {
    return null;
  }
  const words = parts.map((one) => `${one.part} ${short(one.gib)} GiB`).join(", ");
  return (
    <section className="card" aria-label="Memory by part">
      <div className="card-head">
        <h2>Memory by part</h2>
      </div>
      <div className="tune-pad">
        <div className="tune-bar" role="img" aria-label={words}>
          {parts.map((one) => (
            <span key={one.part} className={`tune-${one.part}`} style={{ width: `${(one.gib / total) * 100}%` }} />
          ))}
        </div>
        <ul className="tune-legend">
          {parts.map((one) => (
            <li key={one.part}>
              <i className={`tune-${one.part}`} />
              {one.part} <b>{short(one.gib)} GiB</b>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

function Speed({ whole }: { whole: WholeRun }): ReactElement | null {
  const { info } = whole.run;
  const runs = useMemo(
    () => [{ id: info.run_id, name: info.run_name, start: info.start_time }],
    [info.run_id, info.run_name, info.start_time],
  );
  const known = new Set(whole.metrics.map((one) => one.key));
  const shown = SPEED.filter((metric) => known.has(metric));
  return shown.length === 0 ? null : (
    <div className="tune-charts">
      {shown.map((metric) => (
        <Panel key={metric} metric={metric} title={metric} runs={runs} settings={SETTINGS} sync="finetune" />
      ))}
    </div>
  );
}

/** What the model said to the same prompts, step by step. */
function Samples({ whole }: { whole: WholeRun }): ReactElement {
  const { info } = whole.run;
  const refetchInterval = isLive(info.status) ? REFRESH_MS : false;
  const files = useQuery({ ...filesQuery(info.run_id, FOLDER), refetchInterval });
  const samples = samplesOf((files.data ?? []).map((one) => one.path));
  const [chosen, setChosen] = useState<number | null>(null);
  const at = chosen === null ? samples.length - 1 : Math.min(chosen, samples.length - 1);
  const sample = samples[at];
  const text = useQuery({ ...textQuery(info.artifact_uri, sample?.path ?? ""), enabled: sample !== undefined });
  if (files.error !== null) {
    return (
      <ErrorCard title="The samples could not be listed" error={files.error} retry={() => void files.refetch()} />
    );
  }
  return (
    <section className="card" aria-label="Samples">
      <div className="card-head">
        <h2>Samples</h2>
        {sample !== undefined && (
          <label className="row">
            <span className="muted">step {grouped(sample.step)}</span>
            <input
              type="range"
              aria-label="Step"
              min={0}
              max={samples.length - 1}
              value={at}
              onChange={(event) => setChosen(Number(event.target.value))}
            />
          </label>
        )}
      </div>
      <div className="tune-pad">
        {files.data === undefined ? (
          <Skeleton rows={3} />
        ) : sample === undefined ? (
          <p className="muted">
            No samples: <code>eval.prompts</code> in the recipe asks for some at each evaluation.
          </p>
        ) : (
          <Markdown text={text.data?.text ?? ""} />
        )}
      </div>
    </section>
  );
}
