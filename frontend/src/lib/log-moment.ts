/** The line of a log at a moment: by the times that lines bear, else by how far the attempt had come. Pure. */

export interface LogMoment {
  at: number;
  /** when the attempt began and ended */
  from: number;
  to: number;
}

const STAMP = /(?:(\d{4})-(\d\d)-(\d\d)[T ])?(\d\d):(\d\d):(\d\d)/;
const SLACK = 120_000;

/** The share of the attempt that had passed. */
export const shareOf = ({ at, from, to }: LogMoment): number => (to <= from ? 0 : Math.min(1, Math.max(0, (at - from) / (to - from))));

/** When a line was printed, if it says so: in UTC or in this browser's zone, whichever lies within the attempt. */
export function timeOf(line: string, moment: LogMoment): number | null {
  const found = STAMP.exec(line.slice(0, 80));
  if (found === null) {
    return null;
  }
  const [hour = 0, minute = 0, second = 0] = found.slice(4).map(Number);
  const base = new Date(moment.from);
  const isDated = found[1] !== undefined;
  const [year = 0, month = 1, day = 1] = found.slice(1, 4).map(Number);
  const utc = isDated ? ([year, month - 1, day] as const) : ([base.getUTCFullYear(), base.getUTCMonth(), base.getUTCDate()] as const);
  const here = isDated ? ([year, month - 1, day] as const) : ([base.getFullYear(), base.getMonth(), base.getDate()] as const);
  const candidates = (isDated ? [0] : [0, 1]).flatMap((more) => [
    Date.UTC(utc[0], utc[1], utc[2] + more, hour, minute, second),
    new Date(here[0], here[1], here[2] + more, hour, minute, second).getTime(),
  ]);
  return candidates.find((time) => time >= moment.from - SLACK && time <= moment.to + SLACK) ?? null;
}

/** The place of the line of a moment, and whether the lines themselves told it. */
export function lineAt(lines: readonly string[], moment: LogMoment): { place: number; exact: boolean } {
  let best: number | null = null;
  for (const [place, line] of lines.entries()) {
    const time = timeOf(line, moment);
    if (time !== null && (time <= moment.at || best === null)) {
      best = place;
    }
    if (time !== null && time > moment.at) {
      break;
    }
  }
  return best === null
    ? { place: Math.max(0, Math.round(shareOf(moment) * (lines.length - 1))), exact: false }
    : { place: best, exact: true };
}
