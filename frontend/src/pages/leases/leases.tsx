/** Leases: the calendar of nodes, one's own leases with what is left of them, and a feed for calendar programs. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import { calendarQuery, type Calendar as Rows, type CalendarRow } from "../../api/leases";
import { Calendar, type Proposal } from "../../features/calendar/calendar";
import { clickLength, dayWord, midnight, moment, offsetAt, readDay, SCALES, turned, windowOf, zoneName, type Scale } from "../../lib/calendar-time";
import { drawn } from "../../lib/calendar-rows";
import { leaseLine } from "../../lib/lease-lines";
import { Icon } from "../../ui/icon";
import { ErrorCard, IconButton, PageHead, Segments, Skeleton, useNow, YardLine } from "../../ui/parts";
import { FeedCard } from "./feed";
import { LeaseDialog } from "./lease-dialog";
import { LeaseSheet } from "./lease-sheet";
import { MyLeases } from "./my-leases";
import "./leases.css";

const LENGTHS: Record<Scale, number> = { day: 1, week: 7, month: 30 };

const NO_TYPES: readonly string[] = [];
const NO_ROWS: readonly CalendarRow[] = [];

export function LeasesPage(): ReactElement {
  const search: Record<string, string> = useSearch({ from: "/app/leases" });
  const navigate = useNavigate();
  const now = useNow(10_000);
  const scale = scaleOf(search.scale);
  const day = readDay(search.day) ?? midnight(now);
  const shown = windowOf(scale, day);
  const type = search.type ?? "";
  const found = useQuery({ ...calendarQuery(shown.from, shown.to, type), placeholderData: (before: Rows | undefined) => before });
  const types = found.data?.types ?? NO_TYPES;
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const [isAsking, setAsking] = useState(false);
  const opened = search.lease ?? null;
  const go = (change: Record<string, string | undefined>): void => {
    const next = Object.fromEntries(Object.entries({ ...search, ...change }).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== ""));
    void navigate({ to: "/app/leases", search: next, replace: true, resetScroll: false });
  };
  const propose = (next: Proposal | null, done: boolean): void => {
    setProposal(next);
    setAsking(done && next !== null);
  };
  const close = (): void => propose(null, false);
  const add = (): void => propose({ ...drawn(now, now, scale, now, clickLength(scale)), nodes: [], lease: null, held: [] }, true);
  return (
    <>
      <PageHead
        title="Leases"
        facts={
          <span title={zoneName()}>
            times in {zoneName()} ({offsetAt(now)})
          </span>
        }
      >
        <button type="button" className="btn primary" onClick={add}>
          <Icon name="plus" />
          New lease
        </button>
      </PageHead>
      <div className="page-body leases">
        <Bar scale={scale} day={day} type={type} types={types} go={go} />
        {found.error !== null && <ErrorCard title="The calendar could not be read" error={found.error} retry={() => void found.refetch()} />}
        {found.data === undefined ? (
          found.error === null && <Skeleton rows={6} height={34} />
        ) : (
          <Surface calendar={found.data} filtered={type !== ""} isWhole={type === ""} scale={scale} shown={shown} now={now} proposal={proposal} onPropose={propose} onOpen={(lease) => go({ lease: lease.lease_id })} />
        )}
        <MyLeases onOpen={(id) => go({ lease: id })} />
        <FeedCard />
        <YardLine line={leaseLine.calendar(LENGTHS[scale])} />
      </div>
      {isAsking && proposal !== null && <LeaseDialog proposal={proposal} types={types} rows={found.data?.rows ?? NO_ROWS} onChange={setProposal} onClose={close} />}
      {opened !== null && (
        <LeaseSheet
          id={opened}
          onClose={() => go({ lease: undefined })}
          onChange={(next) => {
            go({ lease: undefined });
            propose(next, true);
          }}
        />
      )}
    </>
  );
}

function scaleOf(word: string | undefined): Scale {
  return word === "day" || word === "month" ? word : "week";
}

function Surface({ filtered, ...props }: Parameters<typeof Calendar>[0] & { filtered: boolean }): ReactElement {
  return props.calendar.rows.length === 0 ? (
    <NoNodes filtered={filtered} />
  ) : (
    <div>
      <Calendar {...props} />
      <Keys />
    </div>
  );
}

interface BarProps {
  scale: Scale;
  day: number;
  type: string;
  types: readonly string[];
  go: (change: Record<string, string | undefined>) => void;
}

/** How much time, which, and of which nodes. */
function Bar({ scale, day, type, types, go }: BarProps): ReactElement {
  const shown = windowOf(scale, day);
  return (
    <div className="row wrap leases-bar">
      <Segments label="How much time" value={scale} options={SCALES} onChange={(next) => go({ scale: next === "week" ? undefined : next })} />
      <div className="row">
        <IconButton icon="left" label="Earlier" onClick={() => go({ day: dayWord(turned(scale, day, -1)) })} />
        <button type="button" className="btn small" onClick={() => go({ day: undefined })}>
          Today
        </button>
        <IconButton icon="right" label="Later" onClick={() => go({ day: dayWord(turned(scale, day, 1)) })} />
      </div>
      <b className="leases-window">{scale === "day" ? moment(shown.from).replace(/ 00:00$/, "") : `${moment(shown.from).replace(/ 00:00$/, "")} to ${moment(shown.to - 1).replace(/ \d\d:\d\d$/, "")}`}</b>
      <div className="grow" />
      <label className="row muted">
        Type
        <select className="field" aria-label="Type of node" value={type} onChange={(event) => go({ type: event.target.value })}>
          <option value="">all</option>
          {[...new Set([...types, ...(type === "" ? [] : [type])])].map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function NoNodes({ filtered }: { filtered: boolean }): ReactElement {
  return (
    <div className="empty">
      <h2>{filtered ? "No node of this type" : "No node to lease yet"}</h2>
      <p className="muted">{filtered ? "Choose another type above." : "Start the platform with an engine that has machines; where there is no GPU, declare some to try it out:"}</p>
      {!filtered && <YardLine line="yard up --gpus 2" />}
    </div>
  );
}

function Keys(): ReactElement {
  const words = [
    ["mine", "my leases"],
    ["ours", "my team's"],
    ["theirs", "others'"],
    ["pool", "pools"],
    ["running", "running jobs"],
    ["predicted", "expected jobs"],
    ["outage", "node out"],
  ] as const;
  return (
    <div className="cal-keys">
      {words.map(([name, word]) => (
        <span key={name}>
          <i className={`cal-key ${name}`} />
          {word}
        </span>
      ))}
      <span className="faint">Draw on free time for a lease; drag it to move, its edges to stretch. With keys: arrows move, Shift with arrows stretches, Enter asks.</span>
    </div>
  );
}
