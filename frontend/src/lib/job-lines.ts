/** The `yard` lines of jobs and nodes. Pure: one place knows how the words go. */
import { amountOfTime } from "./amounts";
import { shell } from "./yard-line";

const line = (...words: string[]): string => ["yard", ...words].join(" ");

export interface Changed {
  gpus?: number | null | undefined;
  nodes?: number | null | undefined;
  time_limit_seconds?: number | null | undefined;
  priority?: string | null | undefined;
  queue?: string | null | undefined;
  anywhere?: boolean | undefined;
}

const given = (flag: string, value: string | number | null | undefined): string[] =>
  value === null || value === undefined || value === "" ? [] : [flag, shell(String(value))];

export const jobLine = {
  ps: (): string => line("ps"),
  show: (job: string): string => line("show", job),
  why: (job: string): string => line("why", job),
  logs: (job: string, rank = 0): string => line("logs", "-f", job, ...(rank === 0 ? [] : ["--rank", String(rank)])),
  stop: (job: string): string => line("stop", job),
  hold: (job: string): string => line("hold", job),
  release: (job: string): string => line("release", job),
  requeue: (job: string, change: Changed = {}): string =>
    line(
      "requeue",
      job,
      ...given("--gpus", change.gpus),
      ...given("--nodes", change.nodes),
      ...given("--time", change.time_limit_seconds === null || change.time_limit_seconds === undefined ? null : amountOfTime(change.time_limit_seconds)),
      ...given("--priority", change.priority),
      ...given("--queue", change.queue),
      ...(change.anywhere === true ? ["--anywhere"] : []),
    ),
  nodes: (): string => line("nodes"),
  drain: (node: string, note: string): string => line("drain", node, ...given("--note", note)),
  undrain: (node: string): string => line("undrain", node),
  quarantine: (node: string, why: string): string => line("quarantine", node, "--why", why),
  doctor: (node: string): string => line("doctor", "--node", node),
};
