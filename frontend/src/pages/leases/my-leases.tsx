/** One's own leases with what is left of each, and a nudge where nodes stand idle. */
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { myLeasesQuery, releaseLease, type Lease } from "../../api/leases";
import { countdown, span } from "../../lib/calendar-time";
import { count, duration } from "../../lib/format";
import { leaseLine } from "../../lib/lease-lines";
import { Icon } from "../../ui/icon";
import { ErrorCard, useNow, YardLine } from "../../ui/parts";
import { LeaseBadge, useLeaseAct } from "./lease-sheet";

export function MyLeases({ onOpen }: { onOpen: (id: string) => void }): ReactElement {
  const found = useQuery(myLeasesQuery());
  const now = useNow(1000);
  return (
    <section className="card" aria-label="My leases">
      <div className="card-head">
        <h2>My leases</h2>
        <span className="grow" />
        <YardLine line={leaseLine.list()} />
      </div>
      {found.error !== null && <ErrorCard title="Your leases could not be read" error={found.error} retry={() => void found.refetch()} />}
      {found.data?.length === 0 && (
        <p className="faint" style={{ padding: 12 }}>
          None. Draw on the calendar, or use New lease.
        </p>
      )}
      {(found.data ?? []).map((lease) => (
        <Line key={lease.lease_id} lease={lease} now={now} onOpen={onOpen} />
      ))}
    </section>
  );
}

function Line({ lease, now, onOpen }: { lease: Lease; now: number; onOpen: (id: string) => void }): ReactElement {
  const act = useLeaseAct();
  const idle = lease.nudged_ms === null || lease.idle_since_ms === null ? null : now - lease.idle_since_ms;
  return (
    <div className="lease-line">
      <button type="button" className="lease-open clip" onClick={() => onOpen(lease.lease_id)}>
        <b>{lease.name}</b>
      </button>
      <LeaseBadge lease={lease} />
      <b className="lease-count" title={span(lease.starts_ms, lease.ends_ms)}>
        {now < lease.starts_ms ? `starts in ${countdown(lease.starts_ms - now)}` : `${countdown(lease.ends_ms - now)} left`}
      </b>
      <span className="muted clip" title={lease.nodes.map((node) => node.node_id).join(", ")}>
        {lease.nodes.map((node) => node.node_id).join(", ")}, {span(lease.starts_ms, lease.ends_ms)}
      </span>
      <span className="row">
        {idle !== null && (
          <span className="state tone-amber">
            <Icon name="pause" />
            {count(lease.gpus, "GPU")} idle {duration(idle)}; release?
          </span>
        )}
        {lease.lent_ms !== null && <span className="state tone-violet">lent</span>}
        {idle !== null && (
          <button type="button" className="btn small" title={leaseLine.release(lease.name)} onClick={() => void act(releaseLease(lease.lease_id), "The lease was not released")}>
            Release
          </button>
        )}
        <button type="button" className="btn small quiet" onClick={() => onOpen(lease.lease_id)}>
          Open
        </button>
      </span>
    </div>
  );
}
