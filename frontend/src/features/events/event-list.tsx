/** Events as sentences, the latest first. */
import { useNavigate } from "@tanstack/react-router";
import type { ReactElement } from "react";

import type { YardEvent } from "../../api/events";
import { detailOf, objectOf, pageOf, verbOf } from "../../lib/event-words";
import { Ago } from "../../ui/parts";
import { BASE } from "../../api/client";

export function EventList({ events, bare = false }: { events: readonly YardEvent[]; bare?: boolean }): ReactElement {
  const navigate = useNavigate();
  if (events.length === 0) {
    return <p className="faint" style={{ padding: 12 }}>Nothing happened yet.</p>;
  }
  return (
    <table className="plain events">
      <tbody>
        {events.map((event) => {
          const page = pageOf(event);
          const name = objectOf(event);
          return (
            <tr key={event.id}>
              <td className="muted nowrap" style={{ width: 76 }}>
                <Ago ms={event.time_ms} />
              </td>
              <td>
                <b>{event.actor}</b> {verbOf(event.kind)}{" "}
                {page === null || bare ? (
                  bare ? "" : <span>{event.subject === "session" ? "" : `${event.subject} ${name}`}</span>
                ) : (
                  <a
                    href={BASE + page}
                    onClick={(click) => {
                      click.preventDefault();
                      void navigate({ href: page });
                    }}
                  >
                    {event.subject.replace(/_/g, " ")} {name}
                  </a>
                )}{" "}
                <span className="faint clip-wrap">{detailOf(event)}</span>
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
