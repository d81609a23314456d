/** GPUs held over time, stacked by team: how much of the yard was in use. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, type ReactElement } from "react";

import { attemptsQuery, jobsQuery, type Attempt, type Job } from "../../api/jobs";
import { colourOf } from "../../lib/colour";
import { clock, exact, short } from "../../lib/format";
import { heldOver, spansOf } from "../../lib/gpu-time";
import { ErrorCard, Segments, Skeleton, useNow } from "../../ui/parts";
import { Measured } from "./measured";

const SPANS = [
  ["15m", "15 min"],
  ["1h", "Hour"],
  ["1d", "Day"],
  ["1w", "Week"],
] as const;
const LENGTHS: Record<string, number> = { "15m": 900_000, "1h": 3_600_000, "1d": 86_400_000, "1w": 7 * 86_400_000 };
const BINS = 90;
const HEIGHT = 120;

/** Jobs with several attempts held nothing in between: their attempts are read one by one, the latest jobs first. */
const MOST_READ = 60;

function useAttempts(jobs: readonly Job[]): Map<string, Attempt[]> {
  const several = jobs.filter((job) => job.gpus > 0 && (job.attempt > 1 || (job.attempt === 1 && job.state === "queued"))).slice(0, MOST_READ);
  return useQueries({
    queries: several.map((job) => attemptsQuery(job)),
    combine: (answers) => new Map(answers.flatMap(({ data }) => (data === undefined ? [] : [[data.job.job_id, data.attempts] as const]))),
  });
}

export function HeldOverTime({ gpus, span, all, onSpan }: { gpus: number; span: string; all: boolean; onSpan: (span: string) => void }): ReactElement {
  const length = LENGTHS[span] ?? 3_600_000;
  const chosen = LENGTHS[span] === undefined ? "1h" : span;
  const now = useNow(5000);
  // The question moves in steps, so that it is not asked anew with every tick.
  const since = Math.floor((now - length) / 60_000) * 60_000;
  const jobs = useQuery({ ...jobsQuery({ since, limit: 5000, all }), placeholderData: (before) => before, staleTime: 20_000 });
  const live = useQuery(jobsQuery({ state: ["starting", "running"], limit: 1000, all }));
  const known = useMemo(() => [...new Map([...(jobs.data?.jobs ?? []), ...(live.data?.jobs ?? [])].map((job) => [job.job_id, job])).values()], [jobs.data, live.data]);
  const attempts = useAttempts(known);
  const held = useMemo(() => heldOver(known.flatMap((job) => spansOf(job, attempts.get(job.job_id), now)), now - length, now, BINS), [known, attempts, now, length]);
  const most = Math.max(1, gpus, ...held.bins.map((bin) => bin.by.reduce((sum, one) => sum + one, 0)));
  const hours = held.hours.reduce((sum, one) => sum + one, 0);
  const share = gpus === 0 ? null : hours / ((gpus * length) / 3_600_000);
  return (
    <section className="card" aria-label="Use over time">
      <div className="card-head">
        <h2>GPUs held</h2>
        <span className="faint grow clip">
          {short(hours)} GPU-hours{share !== null && `, ${short(Math.min(1, share) * 100)} % of what there is`}
          {!all && " · your team"}
        </span>
        <Segments label="Span" value={chosen} options={SPANS} onChange={onSpan} />
      </div>
      {jobs.error !== null && <ErrorCard title="The past could not be read" error={jobs.error} retry={() => void jobs.refetch()} />}
      {jobs.data === undefined && jobs.error === null ? (
        <Skeleton rows={3} />
      ) : (
        <div className="held">
          <div className="held-scale faint" aria-hidden="true">
            <span>{short(most)}</span>
            <span>0</span>
          </div>
          <div>
            <svg className="held-bars" viewBox={`0 0 ${BINS * 10} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`GPUs held over the last ${chosen}`}>
              {gpus > 0 && <line x1="0" x2={BINS * 10} y1={HEIGHT - (gpus / most) * HEIGHT} y2={HEIGHT - (gpus / most) * HEIGHT} stroke="var(--line-strong)" strokeDasharray="6 6" vectorEffect="non-scaling-stroke" />}
              {held.bins.map((bin, at) => {
                let top = HEIGHT;
                return (
                  <g key={at}>
                    <title>{`${exact(bin.at)}: ${short(bin.by.reduce((sum, one) => sum + one, 0))} GPUs`}</title>
                    <rect x={at * 10} y={0} width={10} height={HEIGHT} fill="transparent" />
                    {bin.by.map((value, team) => {
                      const tall = (value / most) * HEIGHT;
                      top -= tall;
                      return value === 0 ? null : <rect key={team} x={at * 10 + 1} y={top} width={8} height={tall} fill={colourOf(held.teams[team] ?? "")} />;
                    })}
                  </g>
                );
              })}
            </svg>
            <div className="held-ticks faint" aria-hidden="true">
              {[0, 0.25, 0.5, 0.75, 1].map((part) => {
                const at = now - length + part * length;
                return <span key={part}>{part === 1 ? "now" : length > 86_400_000 ? exact(at).slice(5, 10) : clock(at).slice(0, 5)}</span>;
              })}
            </div>
          </div>
        </div>
      )}
      <div className="row wrap held-teams">
        {held.teams.map((team, at) => (
          <span key={team} className="row" style={{ gap: 5 }}>
            <span className="dot" style={{ background: colourOf(team) }} />
            {team} <span className="muted">{short(held.hours[at] ?? 0)} GPU-h</span>
          </span>
        ))}
      </div>
      <Measured since={since} until={Math.ceil(now / 60_000) * 60_000} />
    </section>
  );
}
