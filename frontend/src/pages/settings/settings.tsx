/** Settings: what owners and admins set, and everyone's own tokens. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { sessionQuery } from "../../features/shell/session-query";
import { PageHead, Skeleton } from "../../ui/parts";
import { AuditPart } from "./audit";
import { MembersPart, UsersPart } from "./people";
import { PolicyPart } from "./policy";
import { QueuesPart } from "./queues";
import { TeamsPart } from "./teams";
import { TokensPart } from "./tokens";
import "./settings.css";

const TABS = [
  ["tokens", "Tokens"],
  ["members", "Members"],
  ["teams", "Teams and quotas"],
  ["queues", "Queues"],
  ["policy", "Policy"],
  ["audit", "Audit"],
] as const;

export function SettingsPage(): ReactElement {
  const search: Record<string, string> = useSearch({ strict: false });
  const navigate = useNavigate();
  const { data: session } = useQuery(sessionQuery);
  const tab = TABS.find(([key]) => key === search.tab)?.[0] ?? "tokens";
  return (
    <>
      <PageHead title="Settings" facts={session !== undefined && <span>you are {session.is_admin ? "a platform admin" : `${session.role} of team ${session.team}`}</span>} />
      <div className="tabs" role="tablist" aria-label="Parts of the settings">
        {TABS.map(([key, word]) => (
          <button key={key} type="button" role="tab" aria-selected={key === tab} onClick={() => void navigate({ to: "/app/settings", search: { tab: key } })}>
            {word}
          </button>
        ))}
      </div>
      <div className="page-body stack">
        {session === undefined ? (
          <Skeleton />
        ) : tab === "tokens" ? (
          <TokensPart session={session} />
        ) : tab === "members" ? (
          <>
            <MembersPart session={session} />
            {session.is_admin && <UsersPart session={session} />}
          </>
        ) : tab === "teams" ? (
          <TeamsPart session={session} />
        ) : tab === "queues" ? (
          <QueuesPart session={session} />
        ) : tab === "policy" ? (
          <PolicyPart session={session} />
        ) : (
          <AuditPart session={session} />
        )}
      </div>
    </>
  );
}
