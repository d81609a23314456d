/** The logbook of the team: what happened, notes, and the digest of a week or month. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import { digestQuery, teamLogbookQuery, type Digest } from "../../api/logbook";
import { LogbookView } from "../../features/logbook/logbook";
import { NoteBox } from "../../features/logbook/note-box";
import { Exports, filterOf } from "../../features/logbook/run-logbook";
import { sessionQuery } from "../../features/shell/session-query";
import { yard } from "../../lib/yard-line";
import { ErrorCard, PageHead, Segments, Skeleton, YardLine } from "../../ui/parts";

const VIEWS = [
  ["", "Entries"],
  ["week", "Week"],
  ["month", "Month"],
] as const;
const DAYS = [
  ["1", "1 day"],
  ["7", "7 days"],
  ["30", "30 days"],
] as const;

export function LogbookPage(): ReactElement {
  const search: Record<string, string | undefined> = useSearch({ from: "/app/logbook" });
  const navigate = useNavigate();
  const view = VIEWS.find(([one]) => one === search.view)?.[0] ?? "";
  const set = (change: Record<string, string>): void => {
    const next = Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined && value !== "");
    void navigate({ to: "/app/logbook", search: Object.fromEntries(next) as Record<string, string>, replace: true, resetScroll: false });
  };
  return (
    <>
      <PageHead title="Logbook" facts={<span>what happened in the team, in sentences</span>}>
        <Segments label="View" value={view} options={VIEWS} onChange={(next) => set({ view: next, period: "" })} />
      </PageHead>
      {view === "" ? <Entries search={search} onSearch={set} /> : <DigestView unit={view} period={search.period ?? "this"} onPeriod={(period) => set({ period })} />}
    </>
  );
}

function Entries({ search, onSearch }: { search: Record<string, string | undefined>; onSearch: (change: Record<string, string>) => void }): ReactElement {
  const days = DAYS.find(([one]) => one === search.days)?.[0] ?? "7";
  const [before, setBefore] = useState<number | null>(null);
  const book = useQuery({ ...teamLogbookQuery(Number(days), before), placeholderData: (known) => known });
  const session = useQuery(sessionQuery);
  return (
    <div className="page-body">
      <div className="row wrap">
        <Segments
          label="Days"
          value={days}
          options={DAYS}
          onChange={(next) => {
            setBefore(null);
            onSearch({ days: next });
          }}
        />
        <span className="grow" />
        <Exports run={null} />
      </div>
      <NoteBox run={null} />
      {book.error !== null && <ErrorCard title="The logbook could not be read" error={book.error} retry={() => void book.refetch()} />}
      {book.data === undefined ? (
        <Skeleton />
      ) : (
        <>
          {before !== null && (
            <button type="button" className="btn" onClick={() => setBefore(null)}>
              Latest entries
            </button>
          )}
          <LogbookView
            entries={book.data.entries}
            counts={book.data.counts}
            filter={filterOf(search)}
            onFilter={({ kinds, query }) => onSearch({ kinds: kinds.join(","), q: query, entry: "" })}
            run={null}
            names
            user={session.data?.user ?? ""}
          />
          {typeof book.data.before === "number" && (
            <button type="button" className="btn" onClick={() => setBefore(book.data.before ?? null)}>
              Older entries
            </button>
          )}
        </>
      )}
      <YardLine line={yard.logbook()} />
    </div>
  );
}

function DigestView({ unit, period, onPeriod }: { unit: "week" | "month"; period: string; onPeriod: (period: string) => void }): ReactElement {
  const digest = useQuery(digestQuery(unit, period));
  const options = [
    ["this", `This ${unit}`],
    ["last", `Last ${unit}`],
  ] as const;
  return (
    <div className="page-body">
      <div className="row">
        <Segments label="Period" value={period === "last" ? "last" : "this"} options={options} onChange={onPeriod} />
      </div>
      {digest.error !== null && <ErrorCard title="The digest could not be read" error={digest.error} retry={() => void digest.refetch()} />}
      {digest.data === undefined ? <Skeleton /> : <DigestCard digest={digest.data} />}
      <YardLine line={yard.digest(unit, period)} />
    </div>
  );
}

function DigestCard({ digest }: { digest: Digest }): ReactElement {
  return (
    <>
      <section className="card" aria-label="Digest" style={{ padding: 16 }}>
        <h2>
          {digest.team}, {digest.period}
        </h2>
        <ul>
          {digest.sentences.map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      </section>
      <div className="digest-figures">
        <FigureTable
          title="How attempts ended"
          head={["Cause", "Attempts", "GPU-hours lost"]}
          rows={digest.causes.map((one) => [one.words, String(one.attempts), one.lost_gpu_hours.toFixed(1)])}
        />
        <FigureTable
          title="Nodes with trouble"
          head={["Node", "Bad ends", "Outages"]}
          rows={digest.nodes.map((one) => [one.node, String(one.failures), String(one.outages)])}
        />
      </div>
      {digest.notes.length > 0 && (
        <LogbookView entries={digest.notes} counts={{}} filter={{ kinds: [], query: "", entry: "" }} onFilter={() => undefined} run={null} names user="" />
      )}
    </>
  );
}

function FigureTable({ title, head, rows }: { title: string; head: readonly string[]; rows: readonly (readonly string[])[] }): ReactElement | null {
  if (rows.length === 0) {
    return null;
  }
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
      </div>
      <table className="plain">
        <thead>
          <tr>
            {head.map((word, at) => (
              <th key={word} className={at === 0 ? "" : "num"}>
                {word}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row[0]}>
              {row.map((cell, at) => (
                <td key={head[at]} className={at === 0 ? "" : "num"}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
