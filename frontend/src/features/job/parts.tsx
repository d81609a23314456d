/** Small parts of jobs: the state, a sentence with its links, what can be done. */
import { Link } from "@tanstack/react-router";
import { Fragment, type ReactElement } from "react";

import { clock, exact } from "../../lib/format";
import { jobState, wordState, type JobLike } from "../../lib/job-states";
import { partsOf } from "../../lib/reasons";
import type { State } from "../../lib/states";
import { Icon } from "../../ui/icon";
import "./job.css";

/** A state as word, icon and colour. */
function Badge({ state }: { state: State }): ReactElement {
  return (
    <span className={`state tone-${state.tone}`}>
      <Icon name={state.icon} />
      {state.word}
    </span>
  );
}

export function JobBadge({ job }: { job: JobLike }): ReactElement {
  return <Badge state={jobState(job)} />;
}

/** The state of an attempt or a node. */
export function WordBadge({ word }: { word: string }): ReactElement {
  return <Badge state={wordState(word)} />;
}

/** The time of day; with the date where it is another day. */
export function moment(ms: number, now: number): string {
  const text = exact(ms);
  return text.slice(0, 10) === exact(now).slice(0, 10) ? clock(ms).slice(0, 5) : text.slice(5, 16);
}

/** A sentence of the queue: jobs in it are links by their name, times are the reader's own. */
export function Sentence({ text, nameOf, now }: { text: string; nameOf: (id: string) => string; now: number }): ReactElement {
  return (
    <>
      {partsOf(text).map((part, at) => {
        if (part.kind === "job") {
          return (
            <Link key={at} to="/app/jobs/$jobId" params={{ jobId: part.id }} search={{}} title={part.id}>
              {nameOf(part.id)}
            </Link>
          );
        }
        if (part.kind === "time") {
          return (
            <time key={at} dateTime={new Date(part.ms).toISOString()} title={exact(part.ms)}>
              {moment(part.ms, now)}
            </time>
          );
        }
        return part.kind === "code" ? <code key={at}>{part.text}</code> : <Fragment key={at}>{part.text}</Fragment>;
      })}
    </>
  );
}
