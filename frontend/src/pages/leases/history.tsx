/** What befell a lease, the latest first: each turn with its time, its word and its sentence. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { eventsQuery, type YardEvent } from "../../api/events";
import { moment } from "../../lib/calendar-time";
import { detailOf } from "../../lib/event-words";
import { count, exact } from "../../lib/format";
import { troublesIn, turnOf } from "../../lib/lease-history";
import { Icon } from "../../ui/icon";
import { ErrorCard, Skeleton } from "../../ui/parts";

/** Turns that are shown before one asks for all. */
const FIRST = 8;

export function LeaseHistory({ id }: { id: string }): ReactElement {
  const found = useQuery(eventsQuery({ subject: "lease", subject_id: id, limit: 500 }));
  if (found.error !== null) {
    return <ErrorCard title="The lease's history could not be read" error={found.error} retry={() => void found.refetch()} />;
  }
  return (
    <section className="lease-history" aria-label="History">
      <Head events={found.data ?? []} />
      {found.data === undefined ? <Skeleton rows={3} /> : <Turns events={found.data} />}
    </section>
  );
}

function Head({ events }: { events: readonly YardEvent[] }): ReactElement {
  const troubles = troublesIn(events);
  return (
    <h2 className="row">
      History
      {troubles > 0 && (
        <span className="state tone-amber">
          <Icon name="warn" />
          {count(troubles, "trouble")}
        </span>
      )}
    </h2>
  );
}

/** The turns of a lease as a list. */
export function Turns({ events }: { events: readonly YardEvent[] }): ReactElement {
  const [isWhole, setWhole] = useState(false);
  if (events.length === 0) {
    return <p className="faint">A lease's history is visible to its own team only.</p>;
  }
  const shown = isWhole ? events : events.slice(0, FIRST);
  return (
    <>
      <ol className="lease-turns">
        {shown.map((event) => {
          const turn = turnOf(event.kind);
          return (
            <li key={event.id}>
              <time className="muted" dateTime={new Date(event.time_ms).toISOString()} title={exact(event.time_ms)}>
                {moment(event.time_ms)}
              </time>
              <span className={`state tone-${turn.tone}`}>
                <Icon name={turn.icon} />
                {turn.word}
              </span>
              <span>
                {detailOf(event)} {event.actor !== "system" && <span className="faint">by {event.actor}</span>}
              </span>
            </li>
          );
        })}
      </ol>
      {shown.length < events.length && (
        <div>
          <button type="button" className="btn small" onClick={() => setWhole(true)}>
            Show {count(events.length - shown.length, "earlier turn")}
          </button>
        </div>
      )}
    </>
  );
}
