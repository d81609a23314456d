/** The trials of a hyperparameter search: what was chosen for each, how it stands, what it reached. */
import type { ReactElement } from "react";

import type { Claim, Trial } from "../../api/jobs";
import { duration, grouped } from "../../lib/format";
import { WordBadge } from "./parts";

/** Names of all trials' parameters, in the order in which they first appear. */
export function paramNames(trials: readonly Trial[]): string[] {
  return [...new Set(trials.flatMap((trial) => Object.keys(trial.params)))];
}

/** The metric that the search goes by, or the first that a trial reported. */
export function metricName(trials: readonly Trial[]): string {
  const named = trials.find((trial) => trial.metric !== "")?.metric;
  return named ?? trials.flatMap((trial) => Object.keys(trial.metrics))[0] ?? "";
}

function value(one: unknown): string {
  if (one === undefined || one === null) {
    return "—";
  }
  return typeof one === "number" && !Number.isInteger(one) ? String(Number(one.toPrecision(6))) : typeof one === "string" ? one : JSON.stringify(one);
}

export function Trials({ trials }: { trials: readonly Trial[] }): ReactElement {
  const params = paramNames(trials);
  const metric = metricName(trials);
  return (
    <div className="scroll-x">
      <table className="plain">
        <thead>
          <tr>
            <th className="num">Trial</th>
            <th>State</th>
            {params.map((name) => (
              <th key={name} className="num">
                {name}
              </th>
            ))}
            <th className="num">{metric === "" ? "Metric" : metric}</th>
            <th className="num">Iterations</th>
            <th className="num">Ran</th>
          </tr>
        </thead>
        <tbody>
          {trials.map((trial) => (
            <tr key={trial.trial} title={trial.trial}>
              <td className="num">{trial.number}</td>
              <td>
                <WordBadge word={trial.state} />
                {trial.error !== "" && <code className="attempt-error">{trial.error}</code>}
              </td>
              {params.map((name) => (
                <td key={name} className="num">
                  {value(trial.params[name])}
                </td>
              ))}
              <td className="num">
                <b>{value(trial.metrics[metric])}</b>
              </td>
              <td className="num">{grouped(trial.iterations)}</td>
              <td className="num">{duration(trial.seconds * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Nodes that the job asked for after its start: for workers of Ray Train, or places for trials. */
export function Claims({ claims }: { claims: readonly Claim[] }): ReactElement {
  return (
    <div className="scroll-x">
      <table className="plain">
        <thead>
          <tr>
            <th>Held for it</th>
            <th>State</th>
            <th>Nodes</th>
            <th className="num">GPU-hours</th>
            <th>How</th>
          </tr>
        </thead>
        <tbody>
          {claims.map((claim) => (
            <tr key={claim.job_id} title={claim.job_id}>
              <td>{claim.demand}</td>
              <td>{claim.state}</td>
              <td>{claim.nodes.length === 0 ? "—" : claim.nodes.join(", ")}</td>
              <td className="num">{(claim.gpu_seconds / 3600).toFixed(3)}</td>
              <td>{claim.source === "watch" ? "taken without asking" : "asked"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
