/** Joins the live stream to what is cached: a message refreshes exactly what it is about. */
import type { QueryClient } from "@tanstack/react-query";

import { seriesStore } from "./series";
import { isPoints, stream, type LiveEvent, type Message } from "./stream";

/** Milliseconds between two refreshes of one kind. */
const EVERY = 1500;

/** Make a function that runs at once and then not again before some time has passed. */
export function spaced(act: () => void, every = EVERY): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let again = false;
  const fire = (): void => {
    act();
    again = false;
    timer = setTimeout(() => {
      timer = null;
      if (again) {
        fire();
      }
    }, every);
  };
  return () => {
    if (timer === null) {
      fire();
    } else {
      again = true;
    }
  };
}

/** Which cached things an event makes stale: heads of their keys. */
export function staleBy(event: Pick<LiveEvent, "kind">): string[] {
  const family = event.kind.split(".")[0] ?? "";
  switch (family) {
    case "run":
      return event.kind === "run.logged" ? ["names"] : ["experiments", "names"];
    case "job":
    case "attempt":
    case "checkpoint":
      return ["jobs", "job", "forecast", "cluster", "queues", "leases", "logbook"];
    case "note":
      return ["logbook", "inbox"];
    case "sweep":
      return ["sweeps", "sweep"];
    case "node":
    case "queue":
      return ["cluster", "jobs", "job", "forecast", "queues", "leases"];
    case "lease":
      return ["leases", "jobs", "job", "forecast"];
    case "alert":
      return ["alerts", "inbox"];
    case "experiment":
      return ["experiments", "experiment"];
    case "artifact":
      return ["files"];
    case "model":
    case "model_version":
    case "model_alias":
      return ["models", "model", "versions"];
    default:
      return [];
  }
}

/** Follow the stream for as long as the page lives; returns how to stop. */
export function follow(client: QueryClient): () => void {
  const spacers = new Map<string, () => void>();
  const refresh = (head: string): void => {
    let act = spacers.get(head);
    if (act === undefined) {
      act = spaced(() => void client.invalidateQueries({ queryKey: [head] }));
      spacers.set(head, act);
    }
    act();
  };
  const runs = new Map<string, () => void>();
  const refreshRun = (id: string): void => {
    let act = runs.get(id);
    if (act === undefined) {
      act = spaced(() => void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === "run" && queryKey[2] === id }));
      runs.set(id, act);
    }
    act();
  };
  const take = (messages: Message[]): void => {
    for (const message of messages) {
      if (isPoints(message)) {
        seriesStore.touched(message.runs);
        message.runs.forEach(refreshRun);
      } else {
        refresh("events");
        staleBy(message).forEach(refresh);
        if (message.subject === "run") {
          refreshRun(message.subject_id);
        }
      }
    }
  };
  const stops = [
    stream.listen(take),
    stream.onReload(() => {
      seriesStore.reload();
      void client.invalidateQueries();
    }),
  ];
  return () => stops.forEach((stop) => stop());
}
