/** What is not in this team may be in another of yours: a link without a team still opens. */
import { useQuery } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { useEffect } from "react";

import { currentTeam, Fault, json } from "../../api/client";
import { rememberTeam } from "../../api/team";
import { Skeleton } from "../../ui/parts";
import { sessionQuery } from "./session-query";

/** The other team that has what a path names; null where none has. */
async function findTeam(path: string, teams: readonly string[]): Promise<string | null> {
  const found = await Promise.all(
    teams.map((team) =>
      json(path, { team }).then(
        () => team,
        () => null,
      ),
    ),
  );
  return found.find((team) => team !== null) ?? null;
}

/** Look for what was not found in the other teams, and go there; children say that it is nowhere. */
export function Elsewhere({ path, error, children }: { path: string; error: Error; children: ReactNode }): ReactElement {
  const session = useQuery(sessionQuery);
  const others = (session.data?.teams ?? []).map((team) => team.name).filter((name) => name !== currentTeam());
  const isMissing = error instanceof Fault && error.status === 404;
  const found = useQuery({
    queryKey: ["elsewhere", path],
    queryFn: () => findTeam(path, others),
    enabled: isMissing && others.length > 0,
    retry: false,
    staleTime: Infinity,
  });
  const team = found.data ?? null;
  useEffect(() => {
    if (team !== null) {
      rememberTeam(team);
      const where = new URL(window.location.href);
      where.searchParams.set("team", team);
      window.location.replace(where);
    }
  }, [team]);
  const isLooking = isMissing && (session.isPending || (others.length > 0 && found.isPending));
  return isLooking || team !== null ? <Skeleton rows={10} /> : <>{children}</>;
}
