/** One lease: what it holds, whose it is, what can be done to it. Each deed shows its `yard` line. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import { leaseQuery, recallLease, releaseLease, transferLease, type Lease, type LeaseAnswer } from "../../api/leases";
import type { Proposal } from "../../features/calendar/calendar";
import type { Draft } from "../../lib/calendar-rows";
import { HOUR, span } from "../../lib/calendar-time";
import { bytes, count, duration, exact, short } from "../../lib/format";
import { leaseLine, leaseState } from "../../lib/lease-lines";
import { Icon } from "../../ui/icon";
import { Dialog } from "../../ui/menu";
import { ErrorCard, Skeleton, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";
import { LeaseHistory } from "./history";

/** Do something to a lease, say so, and read what changed. */
export function useLeaseAct(): (doing: Promise<LeaseAnswer>, what: string) => Promise<boolean> {
  const client = useQueryClient();
  return async (doing, what) => {
    try {
      toast((await doing).sentence);
      void client.invalidateQueries({ queryKey: ["leases"] });
      return true;
    } catch (cause) {
      complain(what, cause);
      return false;
    }
  };
}

/** A lease as a draft, to be changed. */
export function draftOf(lease: Lease): Draft {
  return { starts_ms: lease.starts_ms, ends_ms: lease.ends_ms, nodes: lease.nodes.map((node) => node.node_id) };
}

export function LeaseBadge({ lease }: { lease: Pick<Lease, "state" | "degraded"> }): ReactElement {
  const state = leaseState(lease.state);
  return (
    <span className={`state tone-${lease.degraded ? "red" : state.tone}`}>
      <Icon name={lease.degraded ? "warn" : state.icon} />
      {lease.degraded ? `${state.word}, degraded` : state.word}
    </span>
  );
}

interface SheetProps {
  id: string;
  onClose: () => void;
  /** another time was chosen: it is asked about before it is so */
  onChange: (proposal: Proposal) => void;
}

export function LeaseSheet({ id, onClose, onChange }: SheetProps): ReactElement {
  const found = useQuery(leaseQuery(id));
  return (
    <Dialog title={found.data === undefined ? "Lease" : `Lease ${found.data.name}`} wide onClose={onClose}>
      {found.error !== null && <ErrorCard title="The lease could not be read" error={found.error} retry={() => void found.refetch()} />}
      {found.data === undefined && found.error === null && <Skeleton rows={5} />}
      {found.data !== undefined && (
        <>
          <Facts lease={found.data} />
          <LeaseHistory id={found.data.lease_id} />
          {found.data.editable && !found.data.over ? <Deeds lease={found.data} onClose={onClose} onChange={onChange} /> : <YardLine line={leaseLine.show(found.data.name)} />}
        </>
      )}
    </Dialog>
  );
}

function Facts({ lease }: { lease: Lease }): ReactElement {
  return (
    <>
      <div className="row wrap">
        <LeaseBadge lease={lease} />
        <span>{lease.sentence}</span>
      </div>
      <dl className="lease-facts">
        <dt>Holder</dt>
        <dd>
          {lease.user}, team {lease.team}
          {lease.personal && " (for the holder alone)"}
        </dd>
        {lease.kind === "pool" && (
          <>
            <dt>Kind</dt>
            <dd>a pool: staff hands out parts of it</dd>
          </>
        )}
        {lease.parent !== "" && (
          <>
            <dt>Handed out from</dt>
            <dd>pool {lease.parent_name}</dd>
          </>
        )}
        <dt>When</dt>
        <dd>
          {span(lease.starts_ms, lease.ends_ms)}, {duration(lease.ends_ms - lease.starts_ms)}
        </dd>
        {lease.usable_until_ms < lease.ends_ms && (
          <>
            <dt>Jobs until</dt>
            <dd title={exact(lease.usable_until_ms)}>{span(lease.usable_until_ms, lease.ends_ms)}: another lease follows</dd>
          </>
        )}
        <dt>Nodes</dt>
        <dd>
          {lease.nodes.map((node) => (
            <div key={node.node_id}>
              <b>{node.node_id}</b>{" "}
              <span className="muted">
                {node.gpus === 0 ? "no GPU," : `${node.gpu_type} ${count(node.gpus, "GPU")}`} {node.gpu_memory_bytes > 0 && bytes(node.gpu_memory_bytes)} {node.lost ? "lost" : node.state}
              </span>
            </div>
          ))}
        </dd>
        <dt>Before it ends</dt>
        <dd>{lease.before_end === "drain" ? "jobs save and stop in time" : "the holder is told"}</dd>
        {lease.purpose !== "" && (
          <>
            <dt>What for</dt>
            <dd>{lease.purpose}</dd>
          </>
        )}
        <dt>Costs</dt>
        <dd>{short(lease.units)} service units</dd>
        {lease.jobs.length > 0 && (
          <>
            <dt>Jobs</dt>
            <dd className="row wrap">
              {lease.jobs.map((job) => (
                <Link key={job} to="/app/jobs/$jobId" params={{ jobId: job }} search={{}}>
                  {job}
                </Link>
              ))}
            </dd>
          </>
        )}
      </dl>
    </>
  );
}

function Deeds({ lease, onClose, onChange }: Omit<SheetProps, "id"> & { lease: Lease }): ReactElement {
  const [user, setUser] = useState<string | null>(null);
  const [isReleasing, setReleasing] = useState(false);
  const act = useLeaseAct();
  const longer = { ...draftOf(lease), ends_ms: lease.ends_ms + HOUR };
  const done = (doing: Promise<LeaseAnswer>, what: string): void => void act(doing, what).then((isDone) => isDone && onClose());
  const line = isReleasing
    ? leaseLine.release(lease.name)
    : user !== null
      ? leaseLine.transfer(lease.name, user)
      : lease.lent_ms === null
        ? leaseLine.change(lease.name, "extend", draftOf(lease), longer)
        : leaseLine.recall(lease.name);
  return (
    <>
      {user !== null && (
        <label className="label">
          Hand it to
          <input className="field" value={user} placeholder="user name" onChange={(event) => setUser(event.target.value)} />
        </label>
      )}
      {isReleasing && <p className="muted">{lease.state === "pending" ? "The lease is deleted and its time is free for others." : "Jobs on it save and stop; then its nodes are free for others."}</p>}
      <YardLine line={line} />
      <div className="dialog-foot">
        {lease.lent_ms !== null && (
          <button type="button" className="btn" title={leaseLine.recall(lease.name)} onClick={() => done(recallLease(lease.lease_id), "The nodes were not called back")}>
            Call nodes back
          </button>
        )}
        {user === null ? (
          <button type="button" className="btn" title={leaseLine.transfer(lease.name, "")} onClick={() => setUser("")}>
            Transfer…
          </button>
        ) : (
          <button type="button" className="btn primary" disabled={user.trim() === ""} onClick={() => done(transferLease(lease.lease_id, user.trim()), "The lease was not handed over")}>
            Transfer
          </button>
        )}
        <button type="button" className="btn danger" title={leaseLine.release(lease.name)} onClick={() => (isReleasing ? done(releaseLease(lease.lease_id), "The lease was not released") : setReleasing(true))}>
          {isReleasing ? `Release ${lease.name}` : "Release…"}
        </button>
        <button type="button" className="btn" title={leaseLine.change(lease.name, "extend", draftOf(lease), longer)} onClick={() => onChange({ ...longer, lease: { ...lease, lent: lease.lent_ms !== null }, held: longer.nodes })}>
          Extend by 1 h…
        </button>
      </div>
    </>
  );
}
