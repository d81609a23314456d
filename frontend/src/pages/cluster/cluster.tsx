/** The cluster: a card a node with its GPUs and who holds them, use over time, and demand that cannot be met. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState, type ReactElement } from "react";

import { currentTeam, json } from "../../api/client";
import { clusterQuery, drainNode, undrainNode, type Cluster, type Demand, type Gpu, type Node } from "../../api/cluster";
import { jobsQuery, type Job } from "../../api/jobs";
import type { RunsTable } from "../../api/runs";
import { activeLeasesQuery } from "../../api/leases";
import { loadSession } from "../../api/session";
import { HeatLegend, HeatMap, type HeatBy } from "../../features/gpu-map/heat-map";
import { GpuTiles, Meter, useLast } from "../../features/gpu-tiles/gpu-tiles";
import { useAct } from "../../features/job/actions";
import { Sentence, WordBadge } from "../../features/job/parts";
import { useJobNames } from "../../features/job/use-job";
import { moment } from "../../lib/calendar-time";
import { bytes, count, exact, short } from "../../lib/format";
import { chosenNodes } from "../../lib/gpu-map";
import { asks } from "../../lib/job-states";
import { jobLine } from "../../lib/job-lines";
import { tierOf } from "../../lib/reasons";
import { Icon } from "../../ui/icon";
import { Dialog, MenuButton, MenuItem } from "../../ui/menu";
import { Ago, ErrorCard, PageHead, Segments, Skeleton, useNow, YardLine } from "../../ui/parts";
import { NodeHealth, QuarantineDialog } from "./health";
import { HeldOverTime } from "./held";
import "./cluster.css";

const FEW = 4;
const HEAT: readonly (readonly [HeatBy, string])[] = [
  ["team", "Team"],
  ["use", "Utilisation"],
  ["health", "Health"],
];
/** Kinds of GPU metrics that are read for the map: as many GPUs as a large node has. */
const GPUS = Array.from({ length: 16 }, (_, at) => at);
const busyName = (index: number): string => `system/gpu_${index}_utilization_percentage`;

/** How busy GPUs are, from what the jobs on them sample: one question for all of them. */
function useBusy(jobs: readonly Job[], enabled: boolean): (node: Node, gpu: Gpu) => number | null {
  const experiments = useMemo(() => [...new Set(jobs.map((job) => job.experiment_id).filter((id) => id !== ""))].toSorted(), [jobs]);
  const table = useQuery({
    queryKey: ["gpu-use", currentTeam(), experiments],
    queryFn: ({ signal }) => json<RunsTable>("/api/v1/runs/table", { query: { experiment_id: experiments, filter: "attributes.status = 'RUNNING'", limit: 1000, metric: GPUS.map(busyName) }, signal }),
    enabled: enabled && experiments.length > 0,
    refetchInterval: 10_000,
  });
  const place = new Map((table.data?.run_id ?? []).map((run, at) => [run, at]));
  const runOf = new Map(jobs.map((job) => [job.job_id, job.run_id]));
  return (_, gpu) => {
    const at = gpu.holders.map((holder) => place.get(runOf.get(holder.job_id) ?? "")).find((one) => one !== undefined);
    const value = at === undefined ? null : table.data?.metrics[busyName(gpu.index)]?.last[at];
    return typeof value === "number" ? value : null;
  };
}

export function ClusterPage(): ReactElement {
  const cluster = useQuery({ ...clusterQuery(), refetchInterval: 5000 });
  const search: Record<string, string> = useSearch({ from: "/app/nodes" });
  const navigate = useNavigate();
  const session = useQuery({ queryKey: ["session"], queryFn: loadSession, staleTime: 60_000 });
  const live = useQuery(jobsQuery({ state: ["starting", "running"], limit: 1000 }));
  const runs = useMemo(() => new Map((live.data?.jobs ?? []).map((job) => [job.job_id, job.run_id])), [live.data]);
  const totals = cluster.data?.totals;
  const set = (change: Record<string, string>): void => void navigate({ to: "/app/nodes", search: Object.fromEntries(Object.entries({ ...search, ...change }).filter(([, value]) => value !== "")), replace: true, resetScroll: false });
  const find = search.find ?? "";
  const nodes = cluster.data?.nodes;
  const shown = useMemo(() => chosenNodes(nodes ?? [], find), [nodes, find]);
  // A few nodes are shown with their cards at once; of many, the one that was chosen.
  const cards = search.node === undefined ? (shown.length <= FEW ? shown : []) : shown.filter((node) => node.node_id === search.node);
  return (
    <>
      <PageHead title="Nodes" facts={totals !== undefined && <Totals totals={totals} />}>
        <Link className="btn" to="/app/queue" search={{}}>
          <Icon name="queue" />
          Queue
        </Link>
      </PageHead>
      {cluster.error !== null && (
        <div className="page-body">
          <ErrorCard title="The nodes could not be read" error={cluster.error} retry={() => void cluster.refetch()} />
        </div>
      )}
      {cluster.data === undefined && cluster.error === null && <Skeleton rows={8} height={40} />}
      {cluster.data !== undefined && (
        <div className="page-body">
          {cluster.data.nodes.length === 0 && <NoNodes engine={cluster.data.engine} />}
          {cluster.data.nodes.length > 0 && <Heat shown={shown} search={search} set={set} jobs={live.data?.jobs ?? []} />}
          <div className="nodes">
            {cards.map((node) => (
              <NodeCard key={node.node_id} node={node} runOf={(job) => runs.get(job)} isAdmin={session.data?.is_admin === true} />
            ))}
          </div>
          <HeldOverTime
            gpus={cluster.data.totals.gpus}
            span={search.span ?? "1h"}
            all={session.data?.is_admin === true}
            onSpan={(span) => set({ span })}
          />
          <Unmet cluster={cluster.data} />
          <YardLine line={jobLine.nodes()} />
        </div>
      )}
    </>
  );
}

function Totals({ totals }: { totals: Cluster["totals"] }): ReactElement {
  return (
    <>
      <span>
        {totals.nodes_ready} of {count(totals.nodes, "node")} ready
      </span>
      <span>
        <b>{short(totals.gpus_held)}</b> of {count(totals.gpus, "GPU")} held
      </span>
      <span>
        {count(totals.jobs_running, "job")} running, {totals.jobs_queued} waiting for {short(totals.gpus_wanted)} GPUs
      </span>
    </>
  );
}

/** The map with its filter and its colours. */
function Heat({ shown, search, set, jobs }: { shown: readonly Node[]; search: Record<string, string>; set: (change: Record<string, string>) => void; jobs: readonly Job[] }): ReactElement {
  const by: HeatBy = search.by === "use" || search.by === "health" ? search.by : "team";
  const busyOf = useBusy(jobs, by === "use");
  return (
    <>
      <div className="heat-head">
        <input className="field" type="search" aria-label="Find a node" placeholder="Name, state, type, label, team" value={search.find ?? ""} onChange={(event) => set({ find: event.target.value })} />
        <Segments label="Colour by" value={by} options={HEAT} onChange={(next) => set({ by: next === "team" ? "" : next })} />
        <HeatLegend nodes={shown} by={by} />
      </div>
      {shown.length > 0 ? <HeatMap nodes={shown} by={by} busyOf={busyOf} chosen={search.node} onChoose={(node) => set({ node: node ?? "" })} /> : <p className="faint">No node matches.</p>}
    </>
  );
}

function NoNodes({ engine }: { engine: string }): ReactElement {
  return (
    <div className="empty">
      <h2>No node yet</h2>
      <p className="muted">
        The engine is <code>{engine}</code> and lists no machine. To run jobs on this machine, start the platform with its local engine; where there is no GPU, declare some to try it out:
      </p>
      <YardLine line="yard up --gpus 2" />
    </div>
  );
}

function NodeCard({ node, runOf, isAdmin }: { node: Node; runOf: (job: string) => string | undefined; isAdmin: boolean }): ReactElement {
  const [draining, setDraining] = useState(false);
  const [quarantining, setQuarantining] = useState(false);
  const act = useAct();
  const labels = Object.entries(node.labels);
  const out = node.state === "drained" || node.state === "quarantined";
  return (
    <section id={`node-${node.node_id}`} className="card node" aria-label={`Node ${node.node_id}`}>
      <div className="card-head">
        <h2 className="clip">{node.node_id}</h2>
        <WordBadge word={node.state} />
        <span className="faint grow clip">{count(node.job_count, "job")}</span>
        {isAdmin && (
          <MenuButton name={`Actions for ${node.node_id}`} label="" icon="more" quiet caret={false} width={280}>
            {(close) => (
              <>
                {out ? (
                  <MenuItem
                    icon="play"
                    onClick={() => {
                      close();
                      void act(`${node.node_id} takes jobs again`, undrainNode(node.node_id), () => void act(`Drained ${node.node_id}`, drainNode(node.node_id, node.note)));
                    }}
                  >
                    Return to service
                  </MenuItem>
                ) : (
                  <MenuItem
                    icon="pause"
                    onClick={() => {
                      close();
                      setDraining(true);
                    }}
                  >
                    Drain…
                  </MenuItem>
                )}
                {node.state !== "quarantined" && (
                  <MenuItem
                    icon="warn"
                    onClick={() => {
                      close();
                      setQuarantining(true);
                    }}
                  >
                    Quarantine…
                  </MenuItem>
                )}
                <hr />
                <div className="menu-head">In a terminal</div>
                <YardLine line={out ? jobLine.undrain(node.node_id) : jobLine.drain(node.node_id, "")} />
              </>
            )}
          </MenuButton>
        )}
      </div>
      {node.note !== "" && (
        <p className="node-note">
          <Icon name="edit" />
          {node.note}
          {node.until_ms !== null && ` (until ${exact(node.until_ms).slice(0, 16)})`} {node.actor !== "" && <span className="faint">{node.actor}, <Ago ms={node.changed_ms} /></span>}
        </p>
      )}
      <Leased node={node.node_id} />
      <NodeMeters node={node} run={node.jobs.map(runOf).find((run) => run !== undefined)} />
      <GpuTiles node={node} runOf={runOf} />
      <NodeHealth node={node} />
      <footer className="node-foot faint clip" title={labels.map(([name, value]) => `${name} ${value}`).join(" · ")}>
        {[...node.notes, ...labels.map(([name, value]) => `${name} ${value}`)].join(" · ")}
      </footer>
      {draining && <DrainDialog node={node.node_id} onClose={() => setDraining(false)} />}
      {quarantining && <QuarantineDialog node={node.node_id} onClose={() => setQuarantining(false)} />}
    </section>
  );
}

/** For whom the node is held now; of a pool and its part, the part. */
function Leased({ node }: { node: string }): ReactElement | null {
  const { data } = useQuery(activeLeasesQuery());
  const found = (data ?? []).filter((lease) => lease.nodes.some((one) => one.node_id === node));
  const lease = found.find((one) => one.kind !== "pool") ?? found[0];
  return lease === undefined ? null : (
    <p className="row muted" style={{ margin: "0 12px 8px" }}>
      <Icon name="clock" />
      <span className="clip">
        leased as <Link to="/app/leases" search={{}}>{lease.name}</Link> to {lease.user} (team {lease.team}) until {moment(lease.ends_ms)}
        {lease.lent_ms !== null && ", lent"}
      </span>
    </p>
  );
}

/** What jobs hold of the node, and how busy the machine is, where a job samples it. */
function NodeMeters({ node, run }: { node: Node; run: string | undefined }): ReactElement {
  const busy = useLast(run, "system/cpu_utilization_percentage");
  const memory = useLast(run, "system/system_memory_usage_percentage");
  return (
    <div className="node-meters">
      <Meter name="cpu" share={busy === null ? null : busy / 100} words={busy === null ? "—" : `${short(busy)} %`} />
      <Meter name="mem" share={memory === null ? null : memory / 100} words={memory === null ? "—" : `${short(memory)} %`} />
      <span className="muted">
        {short(node.cpus - node.free_cpus)} of {count(node.cpus, "CPU")} held
      </span>
      <span className="muted">
        {bytes(node.memory_bytes - node.free_memory_bytes)} of {bytes(node.memory_bytes)} held
      </span>
    </div>
  );
}

function DrainDialog({ node, onClose }: { node: string; onClose: () => void }): ReactElement {
  const [note, setNote] = useState("");
  const act = useAct();
  return (
    <Dialog title={`Drain ${node}?`} onClose={onClose}>
      <p className="muted">What runs there ends by itself; nothing new starts until it is let back.</p>
      <label className="label">
        Reason, visible to others
        <input className="field" value={note} placeholder="ECC errors on GPU 3" onChange={(event) => setNote(event.target.value)} />
      </label>
      <YardLine line={jobLine.drain(node, note)} />
      <div className="dialog-foot">
        <button type="button" className="btn" onClick={onClose}>
          Leave it
        </button>
        <button
          type="button"
          className="btn danger"
          onClick={() => {
            onClose();
            void act(`Drained ${node}`, drainNode(node, note), () => void act(`${node} takes jobs again`, undrainNode(node)));
          }}
        >
          Drain
        </button>
      </div>
    </Dialog>
  );
}

/** Unmet demand now, the worst first, and why. */
function Unmet({ cluster }: { cluster: Cluster }): ReactElement {
  const nameOf = useJobNames(cluster.demand.length > 0);
  const now = useNow(10_000);
  return (
    <section className="card" aria-label="Unmet demand">
      <div className="card-head">
        <h2>Unmet demand</h2>
        <span className="faint grow">{cluster.demand.length === 0 ? "" : `${short(cluster.totals.gpus_wanted)} GPUs in all`}</span>
      </div>
      {cluster.demand.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>There is no unmet demand.</p>
      ) : (
        <div className="scroll-x">
          <table className="plain demand">
            <tbody>
              {cluster.demand.map((one, at) => (
                <DemandRow key={at} demand={one} nameOf={nameOf} now={now} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function DemandRow({ demand, nameOf, now }: { demand: Demand; nameOf: (id: string) => string; now: number }): ReactElement {
  const tier = tierOf(demand.reason.tier);
  return (
    <tr>
      <td className="nowrap">
        <span className={`state tone-${tier.tone}`}>
          <Icon name={tier.icon} />
          {tier.word}
        </span>
      </td>
      <td className="nowrap">
        <b>{asks(demand)}</b> <span className="muted">× {count(demand.jobs, "job")}</span>
      </td>
      <td className="demand-why">
        <Sentence text={demand.reason.sentence} nameOf={nameOf} now={now} />. <span className="muted">{demand.reason.remedy}.</span>
      </td>
      <td>
        {demand.job_ids.map((id, at) => (
          <span key={id}>
            {at > 0 && ", "}
            <Link to="/app/jobs/$jobId" params={{ jobId: id }} search={{}}>
              {nameOf(id)}
            </Link>
          </span>
        ))}
      </td>
    </tr>
  );
}
