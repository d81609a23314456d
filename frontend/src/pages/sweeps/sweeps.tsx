/** Every sweep of the team: how it stands and what it found. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { sweepsQuery, type Sweep } from "../../api/sweeps";
import { count, short } from "../../lib/format";
import { progressWords, sweepState } from "../../lib/sweeps";
import { Icon } from "../../ui/icon";
import { Ago, Copy, ErrorCard, PageHead, Skeleton, YardLine } from "../../ui/parts";

const EXAMPLE = "yard sweep --param lr=log:1e-5:0.1 --metric val_loss --trials 20 --slots 2 -- python train.py";

export function SweepsPage(): ReactElement {
  const sweeps = useQuery(sweepsQuery());
  return (
    <>
      <PageHead title="Sweeps" facts={<span>{sweeps.data === undefined ? "" : count(sweeps.data.length, "sweep")}</span>} />
      <div className="page-body">
        {sweeps.error !== null && (
          <ErrorCard title="The sweeps could not be read" error={sweeps.error} retry={() => void sweeps.refetch()} />
        )}
        {sweeps.data === undefined ? sweeps.error === null && <Skeleton /> : <Found sweeps={sweeps.data} />}
        <YardLine line="yard sweeps" />
      </div>
    </>
  );
}

function Found({ sweeps }: { sweeps: readonly Sweep[] }): ReactElement {
  if (sweeps.length === 0) {
    return (
      <div className="empty">
        <h2>No sweep yet</h2>
        <p className="muted">Search over the parameters of a script; it needs no change:</p>
        <pre>
          {EXAMPLE} <Copy text={EXAMPLE} label="Copy the command" />
        </pre>
      </div>
    );
  }
  return (
    <section className="card">
      <table className="plain">
        <thead>
          <tr>
            <th>Name</th>
            <th>State</th>
            <th>Trials</th>
            <th>Best</th>
            <th className="wide-only">Metric</th>
            <th className="wide-only">Search</th>
            <th className="wide-only">User</th>
            <th>Created</th>
          </tr>
        </thead>
        <tbody>
          {sweeps.map((sweep) => (
            <tr key={sweep.sweep_id}>
              <td>
                <Link to="/app/sweeps/$sweepId" params={{ sweepId: sweep.sweep_id }} search={{}}>
                  <b>{sweep.name}</b>
                </Link>
              </td>
              <td>
                <SweepBadge word={sweep.state} />
              </td>
              <td>{progressWords(sweep.counts, sweep.trials)}</td>
              <td title={String(sweep.best_value ?? "")}>{short(sweep.best_value)}</td>
              <td className="wide-only">{sweep.metric}</td>
              <td className="muted wide-only">
                {sweep.sampler}
                {sweep.stop === "none" ? "" : ` + ${sweep.stop}`}
              </td>
              <td className="muted wide-only">{sweep.user}</td>
              <td className="muted nowrap">
                <Ago ms={sweep.created_ms} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The state of a sweep or a trial as word, icon and colour. */
export function SweepBadge({ word }: { word: string }): ReactElement {
  const state = sweepState(word);
  return (
    <span className={`state tone-${state.tone}`}>
      <Icon name={state.icon} />
      {state.word}
    </span>
  );
}
