/** Who did what: the event log by person and kind. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { currentTeam } from "../../api/client";
import { AUDIT_ROWS, loadAudit, type AuditWish } from "../../api/settings";
import type { Session } from "../../api/session";
import { EventList } from "../../features/events/event-list";
import { exact } from "../../lib/format";
import { ErrorCard, Skeleton, YardLine } from "../../ui/parts";
import { Choice, Part, Text } from "./parts";

const KINDS = [
  ["", "everything"],
  ["token.", "tokens"],
  ["session.", "sign-ins"],
  ["member.", "members"],
  ["user.", "users"],
  ["team.", "teams and quotas"],
  ["queue.", "queues"],
  ["secret.", "secrets"],
  ["node.", "nodes"],
  ["lease.", "leases"],
  ["job.", "jobs"],
  ["run.", "runs"],
  ["webhook.", "webhooks"],
] as const;

function wishOf(search: Record<string, string>, isAll: boolean): AuditWish {
  const given = (key: string): string | undefined => ((search[key] ?? "") === "" ? undefined : search[key]);
  return { kind: given("kind"), actor: given("actor"), scope: isAll ? "all" : undefined };
}

export function AuditPart({ session }: { session: Session }): ReactElement {
  const search: Record<string, string> = useSearch({ strict: false });
  const navigate = useNavigate();
  const set = (part: Record<string, string>): void =>
    void navigate({ to: "/app/settings", search: { ...search, ...part }, replace: true });
  const isAll = session.is_admin && search.scope !== "team";
  const wish = wishOf(search, isAll);
  const log = useInfiniteQuery({
    queryKey: ["events", currentTeam(), "audit", wish],
    queryFn: ({ pageParam, signal }) => loadAudit(wish, pageParam, signal),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => (page.length < AUDIT_ROWS ? undefined : page[page.length - 1]?.id),
    refetchInterval: 30_000,
  });
  const events = (log.data?.pages ?? []).flat();
  const oldest = events[events.length - 1];
  const line = ["yard events", ...(wish.kind === undefined ? [] : ["--kind", wish.kind]), ...(isAll ? ["--all"] : [])].join(" ");
  return (
    <Part
      title="Audit"
      about={isAll ? "all teams and the platform itself" : `team ${session.team}`}
      actions={
        session.is_admin && (
          <Choice
            hidden
            label="Whose events"
            value={isAll ? "all" : "team"}
            options={[["all", "all teams"], ["team", `team ${session.team}`]]}
            onChange={(scope) => set({ scope })}
          />
        )
      }
    >
      <div className="row wrap settings-filters">
        <Choice label="About" value={KINDS.find(([kind]) => kind === search.kind)?.[0] ?? ""} options={KINDS} onChange={(kind) => set({ kind })} />
        <Text label="Done by" value={search.actor ?? ""} hint="anyone" onChange={(actor) => set({ actor })} />
      </div>
      {log.error !== null && <ErrorCard title="The events could not be read" error={log.error} retry={() => void log.refetch()} />}
      {log.data === undefined ? <Skeleton /> : <EventList events={events} fields />}
      <div className="row wrap settings-filters">
        {log.hasNextPage && (
          <button type="button" className="btn small" disabled={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
            Earlier events
          </button>
        )}
        {oldest !== undefined && <span className="faint">back to {exact(oldest.time_ms)}</span>}
        <YardLine line={line} />
      </div>
    </Part>
  );
}
