/** What the queue promises each team, in words. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { policyQuery } from "../../api/settings";
import type { Session } from "../../api/session";
import { ErrorCard, Skeleton, YardLine } from "../../ui/parts";
import { Choice, Part } from "./parts";

export function PolicyPart({ session }: { session: Session }): ReactElement {
  const policy = useQuery(policyQuery());
  const [team, setTeam] = useState(session.team);
  const all = policy.data?.promises ?? [];
  const teams = [...new Set(all.map((one) => one.team))];
  const shown = all.filter((one) => one.team === team);
  return (
    <Part
      title="Policy"
      about={policy.data === undefined ? "" : `${policy.data.policy}; set with --policy when the server starts`}
      actions={teams.length > 1 && <Choice hidden label="Team" value={team} options={teams.map((name) => [name, name] as const)} onChange={setTeam} />}
    >
      {policy.error !== null && <ErrorCard title="The policy could not be read" error={policy.error} retry={() => void policy.refetch()} />}
      {policy.data === undefined ? (
        <Skeleton rows={6} />
      ) : (
        <div className="stack settings-policy">
          {shown.map((promise) => (
            <section key={promise.queue} aria-label={`Queue ${promise.queue}`}>
              <h3>Queue {promise.queue}</h3>
              <dl>
                {promise.topics.map(({ topic, sentences }) => (
                  <div key={topic}>
                    <dt>{topic}</dt>
                    <dd>{sentences.join(" ")}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
          <YardLine line="yard explain-policy" />
        </div>
      )}
    </Part>
  );
}
