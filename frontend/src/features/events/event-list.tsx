/** Events as sentences, the latest first. */
import { useNavigate } from "@tanstack/react-router";
import type { ReactElement } from "react";

import type { YardEvent } from "../../api/events";
import { namesIt, sentenceOf } from "../../lib/event-sentences";
import { objectOf, pageOf } from "../../lib/event-words";
import { Ago } from "../../ui/parts";
import { BASE } from "../../api/client";

export function EventList({ events, fields = false }: { events: readonly YardEvent[]; fields?: boolean }): ReactElement {
  if (events.length === 0) {
    return <p className="faint" style={{ padding: 12 }}>Nothing has happened yet.</p>;
  }
  // Later events of a thing often name it by its id alone; an earlier one told its name.
  const names = new Map(events.flatMap((event) => (typeof event.data.name === "string" && event.data.name !== "" ? [[event.subject_id, event.data.name as string] as const] : [])));
  return (
    <table className="plain events">
      <tbody>
        {(fields ? events.map((event) => ({ event, times: 1 })) : joined(events)).map(({ event, times }) => (
          <tr key={event.id}>
            <td className="muted nowrap" style={{ width: 76 }}>
              <Ago ms={event.time_ms} />
            </td>
            <td className="clip-wrap">
              <Said event={event} name={names.get(event.subject_id) ?? objectOf(event)} />
              {times > 1 && <span className="faint"> ({times} times)</span>}
              {fields && (
                <details className="event-fields">
                  <summary className="faint">Fields</summary>
                  <pre>{JSON.stringify({ id: event.id, kind: event.kind, actor: event.actor, subject: `${event.subject}/${event.subject_id}`, ...event.data }, null, 2)}</pre>
                </details>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Events that say the same one after the other, as with the jobs of an array, are told once. */
function joined(events: readonly YardEvent[]): { event: YardEvent; times: number }[] {
  const found: { event: YardEvent; times: number; key: string }[] = [];
  for (const event of events) {
    const { before, after } = sentenceOf(event);
    const key = `${event.kind}|${before}|${objectOf(event)}|${after}`;
    const last = found.at(-1);
    if (last?.key === key) {
      last.times += 1;
    } else {
      found.push({ event, times: 1, key });
    }
  }
  return found;
}

/** One event as a sentence, with what it is about as a link. */
function Said({ event, name: known }: { event: YardEvent; name: string }): ReactElement {
  const navigate = useNavigate();
  const page = pageOf(event);
  const { before, after } = sentenceOf(event);
  const name = namesIt(event) ? known : "";
  return (
    <>
      {before}
      {page === null || name === "" ? (
        <b>{name}</b>
      ) : (
        <a
          href={BASE + page}
          onClick={(click) => {
            click.preventDefault();
            void navigate({ href: page });
          }}
        >
          {name}
        </a>
      )}
      {after}
    </>
  );
}
