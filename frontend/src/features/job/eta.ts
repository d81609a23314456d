/** When a waiting job may start, in words. */
import type { Eta } from "../../api/jobs";
import { moment } from "./parts";

/** A forecast as people say it: about 14:20, between 13:50 and 15:10. */
export function etaWords(eta: Eta | null, now: number): { about: string; range: string } | null {
  const start = eta?.start_ms ?? eta?.earliest_ms ?? null;
  if (eta === null || start === null) {
    return null;
  }
  const soon = start - now < 45_000;
  const about = soon ? "any moment" : `about ${moment(start, now)}`;
  const { earliest_ms: first, latest_ms: last } = eta;
  const range = first === null || last === null || last - first < 60_000 ? "" : `${moment(Math.max(first, now), now)} to ${moment(Math.max(last, now), now)}`;
  return { about, range };
}
