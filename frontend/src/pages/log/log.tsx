/** The log: everything that happened, as sentences, as it happens. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { eventsQuery } from "../../api/events";
import { EventList } from "../../features/events/event-list";
import { yard } from "../../lib/yard-line";
import { ErrorCard, PageHead, Segments, Skeleton, YardLine } from "../../ui/parts";

const KINDS = [
  ["", "All"],
  ["run.", "Runs"],
  ["experiment.", "Experiments"],
  ["model", "Models"],
  ["artifact.", "Artifacts"],
  ["job.", "Jobs"],
  ["node.", "Nodes"],
  ["lease.", "Leases"],
  ["token.", "Access"],
] as const;

export function LogPage(): ReactElement {
  const search = useSearch({ from: "/app/log" });
  const navigate = useNavigate();
  const kind = KINDS.find(([one]) => one === search.kind)?.[0] ?? "";
  const family = kind.endsWith(".") ? kind : undefined;
  const events = useQuery({ ...eventsQuery({ limit: 500, kind: family }), placeholderData: (before) => before });
  const shown = (events.data ?? []).filter((event) => event.kind.startsWith(kind));
  return (
    <>
      <PageHead title="Log" facts={<span>the latest events, as they happen</span>}>
        <Segments label="Kind of event" value={kind} options={KINDS} onChange={(next) => void navigate({ to: "/app/log", search: next === "" ? {} : { kind: next }, replace: true })} />
      </PageHead>
      <div className="page-body">
        {events.error !== null && <ErrorCard title="The events could not be read" error={events.error} retry={() => void events.refetch()} />}
        <section className="card">{events.data === undefined ? <Skeleton /> : <EventList events={shown} fields />}</section>
        <YardLine line={yard.events()} />
      </div>
    </>
  );
}
