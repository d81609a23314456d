/** Incidents as a table: what happened to whom, since when, and what to do about it. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { acknowledge, silence, type Incident } from "../../api/alerts";
import { incidentPage, incidentState, subjectWords } from "../../lib/alert-words";
import { Icon } from "../../ui/icon";
import { Ago } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

const HOUR = 3600;

export function IncidentList(props: { incidents: readonly Incident[]; subject?: boolean }): ReactElement {
  const { incidents, subject = true } = props;
  return (
    <table className="plain incidents">
      <thead>
        <tr>
          <th>State</th>
          {subject && <th>About</th>}
          <th>What happened</th>
          <th>Alert</th>
          <th>Since</th>
          <th aria-label="Actions" />
        </tr>
      </thead>
      <tbody>
        {incidents.map((incident) => (
          <Row key={incident.id} incident={incident} subject={subject} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ incident, subject }: { incident: Incident; subject: boolean }): ReactElement {
  const state = incidentState(incident);
  return (
    <tr>
      <td>
        <span className={`state tone-${state.tone}`}>
          <Icon name={state.icon} />
          {state.word}
        </span>
        {incident.acked_by !== null && incident.state === "acknowledged" && (
          <span className="faint"> by {incident.acked_by}</span>
        )}
      </td>
      {subject && (
        <td>
          <span className="faint">{incident.subject_kind} </span>
          <Link to={incidentPage(incident)}>{subjectWords(incident)}</Link>
        </td>
      )}
      <td className="grow-cell">
        {incident.sentence}
        {incident.times > 1 && <span className="faint"> · {incident.times} times</span>}
        {incident.told_ms === null && <span className="faint"> · silenced</span>}
      </td>
      <td>
        <code>{incident.text}</code>
      </td>
      <td>
        <Ago ms={incident.opened_ms} />
      </td>
      <td>
        <Actions incident={incident} />
      </td>
    </tr>
  );
}

function Actions({ incident }: { incident: Incident }): ReactElement | null {
  const client = useQueryClient();
  const act = (what: Promise<unknown>, done: string, line: string): void => {
    what.then(
      () => {
        void client.invalidateQueries({ queryKey: ["alerts"] });
        toast(done, null, line);
      },
      (error: unknown) => complain("That did not work", error),
    );
  };
  if (incident.state === "resolved") {
    return null;
  }
  return (
    <span className="row">
      {incident.state === "open" && (
        <button
          type="button"
          className="btn small"
          onClick={() => act(acknowledge(incident.id), "Acknowledged", `yard alert ack ${incident.id}`)}
        >
          Acknowledge
        </button>
      )}
      <button
        type="button"
        className="btn small quiet"
        onClick={() =>
          act(
            silence({ subject_id: incident.subject_id, seconds: HOUR }),
            `Nothing is sent about ${subjectWords(incident)} for an hour`,
            `yard alert silence --about ${incident.subject_id}`,
          )
        }
      >
        Silence 1 h
      </button>
    </span>
  );
}
