/** The log of a job: follows as it grows, searched, by attempt and rank. Only the lines on screen are drawn. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactElement } from "react";

import { link } from "../../api/client";
import { bytes, count, grouped } from "../../lib/format";
import { jobLine } from "../../lib/job-lines";
import { lineAt, shareOf, type LogMoment } from "../../lib/log-moment";
import { BEGUN, levelOf } from "../../lib/log-text";
import { matcher } from "../../lib/search";
import { Icon } from "../../ui/icon";
import { Copy, IconButton } from "../../ui/parts";
import { LogTail, type LogState } from "./log-tail";
import "./job-log.css";

const LINE = 18;

interface Props {
  job: string;
  /** how many attempts there are */
  attempts: number;
  /** ranks of each attempt, the first first; one each unless told */
  ranks?: readonly number[] | undefined;
  /** bytes held of each rank of each attempt */
  sizes?: readonly (readonly number[])[] | undefined;
  /** attempts that are over, by number */
  ended?: readonly boolean[] | undefined;
  /** whether the job is over */
  over: boolean;
  /** a few lines only, without a bar */
  short?: boolean;
  attempt?: number | undefined;
  rank?: number | undefined;
  onChoose?: ((choice: { attempt?: number; rank?: number }) => void) | undefined;
  /** the moment to show instead of the end */
  moment?: LogMoment | undefined;
}

/** Where reading begins: near the end, or some way before a moment. */
const sizeAt = (size: number, moment: LogMoment | undefined): number =>
  moment === undefined ? size : Math.min(size, Math.round(size * shareOf(moment) + BEGUN / 2));

const NOTHING: LogState = { lines: [], before: 0, dropped: 0, loading: false, fault: null };

function useTail(job: string, attempt: number, rank: number, size: number, over: boolean): { state: LogState; earlier: () => void } {
  // A log is begun where it ends when it is first looked at; that it grows later changes nothing.
  const [begun] = useState(() => new Map<string, number>());
  const key = `${attempt}/${rank}`;
  const tail = useMemo(() => {
    if (attempt < 1) {
      return null;
    }
    begun.set(key, begun.get(key) ?? size);
    return new LogTail({ job, attempt, rank, size: begun.get(key) ?? 0 });
    // oxlint-disable-next-line react/exhaustive-deps -- see above
  }, [job, attempt, rank]);
  useEffect(() => {
    tail?.start();
    return () => tail?.close();
  }, [tail]);
  useEffect(() => {
    if (over) {
      tail?.end();
    }
  }, [over, tail]);
  const state = useSyncExternalStore(
    useCallback((told: () => void) => tail?.listen(told) ?? (() => undefined), [tail]),
    () => tail?.state ?? NOTHING,
  );
  return { state, earlier: () => void tail?.earlier() };
}

interface Choice {
  attempt: number;
  rank: number;
  ranks: number;
  over: boolean;
}

function choiceOf(props: Props): Choice {
  const attempt = Math.min(props.attempts, props.attempt ?? props.attempts);
  const ranks = props.ranks?.[attempt - 1] ?? 1;
  return { attempt, ranks, rank: Math.min(ranks - 1, props.rank ?? 0), over: props.ended?.[attempt - 1] ?? (props.over || attempt < props.attempts) };
}

interface Find {
  query: string;
  at: number;
  only: boolean;
}

/** A place among so many, going round. */
const wrapped = (at: number, length: number): number => (length === 0 ? 0 : ((at % length) + length) % length);

export function JobLog(props: Props): ReactElement {
  const choice = choiceOf(props);
  const { state, earlier } = useTail(props.job, choice.attempt, choice.rank, sizeAt(props.sizes?.[choice.attempt - 1]?.[choice.rank] ?? 0, props.moment), choice.over);
  const [find, setFind] = useState<Find>({ query: "", at: 0, only: false });
  const [follow, setFollow] = useState(props.moment === undefined);
  const shown = useMemo(() => (props.moment === undefined || state.lines.length === 0 ? undefined : lineAt(state.lines, props.moment).place), [state.lines, props.moment]);
  const wanted = useDeferredValue(find.query.trim());
  const hits = useMemo(() => {
    if (wanted === "") {
      return [];
    }
    const fits = matcher(wanted);
    return state.lines.flatMap((line, place) => (fits(line) ? [place] : []));
  }, [state.lines, wanted]);
  if (props.attempts < 1) {
    return <p className="faint" style={{ padding: 12 }}>No output yet: no attempt has started.</p>;
  }
  const short = props.short === true;
  return (
    <div className={`log${short ? " short" : ""}`}>
      {!short && (
        <div className="log-bar">
          <FindBox
            find={find}
            hits={hits.length}
            onChange={(next) => {
              setFind(next);
              setFollow(follow && next.query === "");
            }}
          />
          <Choosing {...props} choice={choice} />
          <span className="grow" />
          {!choice.over && (
            <span className="state tone-blue">
              <Icon name="ring" />
              live
            </span>
          )}
          <span className="faint nowrap wide-only">{count(state.lines.length, "line")}</span>
          <button type="button" className="btn small" aria-pressed={follow} title="Follow new output" onClick={() => setFollow(!follow)}>
            <Icon name="down" />
            Follow
          </button>
          <Copy text={jobLine.logs(props.job, choice.rank)} label={`Copy the command: ${jobLine.logs(props.job, choice.rank)}`} />
          <a
            className="btn quiet small icon"
            title="Download"
            aria-label="Download the log"
            download={`${props.job}-${choice.attempt}-${choice.rank}.log`}
            href={link(`/api/v1/jobs/${encodeURIComponent(props.job)}/logs`, { attempt: choice.attempt, rank: choice.rank })}
          >
            <Icon name="download" />
          </a>
        </div>
      )}
      {state.fault !== null && (
        <div className="log-fault tone-red" role="alert">
          <Icon name="warn" />
          {state.fault} It is tried again by itself.
        </div>
      )}
      {state.before > 0 && !short && (
        <button type="button" className="log-earlier" onClick={earlier}>
          {bytes(state.before)} before this; show some of it
        </button>
      )}
      <LogLines lines={state.lines} shown={find.only && wanted !== "" ? hits : null} hits={hits} current={wanted === "" ? shown : hits[wrapped(find.at, hits.length)]} follow={follow} onFollow={setFollow} />
      <Empty state={state} over={choice.over} />
    </div>
  );
}

function Empty({ state, over }: { state: LogState; over: boolean }): ReactElement | null {
  return state.lines.length === 0 && !state.loading && state.fault === null ? <p className="faint log-empty">{over ? "It printed nothing." : "Nothing printed yet."}</p> : null;
}

function FindBox({ find, hits, onChange }: { find: Find; hits: number; onChange: (find: Find) => void }): ReactElement {
  const walk = (by: number): void => onChange({ ...find, at: find.at + by });
  return (
    <>
      <div className="log-find">
        <Icon name="search" />
        <input
          type="search"
          placeholder="Find in the log"
          aria-label="Find in the log"
          value={find.query}
          onChange={(event) => onChange({ ...find, query: event.target.value, at: 0 })}
          onKeyDown={(event) => event.key === "Enter" && walk(event.shiftKey ? -1 : 1)}
        />
        {find.query !== "" && (
          <>
            <span className="faint nowrap">{hits === 0 ? "none" : `${wrapped(find.at, hits) + 1} of ${grouped(hits)}`}</span>
            <IconButton icon="up" label="Previous match" onClick={() => walk(-1)} />
            <IconButton icon="down" label="Next match" onClick={() => walk(1)} />
          </>
        )}
      </div>
      {find.query !== "" && (
        <button type="button" className="btn small quiet" aria-pressed={find.only} onClick={() => onChange({ ...find, only: !find.only })}>
          Matches only
        </button>
      )}
    </>
  );
}

/** Which attempt, and which rank of it. */
function Choosing({ attempts, onChoose, choice }: Props & { choice: Choice }): ReactElement {
  return (
    <>
      {attempts > 1 && (
        <select className="field" aria-label="Attempt" value={choice.attempt} onChange={(event) => onChoose?.({ attempt: Number(event.target.value) })}>
          {Array.from({ length: attempts }, (_, place) => (
            <option key={place} value={place + 1}>
              attempt {place + 1}
            </option>
          ))}
        </select>
      )}
      {choice.ranks > 1 && (
        <select className="field" aria-label="Rank" value={choice.rank} onChange={(event) => onChoose?.({ rank: Number(event.target.value) })}>
          {Array.from({ length: choice.ranks }, (_, place) => (
            <option key={place} value={place}>
              rank {place}
            </option>
          ))}
        </select>
      )}
    </>
  );
}

interface LinesProps {
  lines: readonly string[];
  shown: readonly number[] | null;
  hits: readonly number[];
  current: number | undefined;
  follow: boolean;
  onFollow: (on: boolean) => void;
}

function LogLines({ lines, shown, hits, current, follow, onFollow }: LinesProps): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const number = shown === null ? lines.length : shown.length;
  const rows = useVirtualizer({ count: number, getScrollElement: () => box.current, estimateSize: () => LINE, overscan: 24 });
  const marked = useMemo(() => new Set(hits), [hits]);
  useEffect(() => {
    if (current !== undefined) {
      rows.scrollToIndex(shown === null ? current : shown.indexOf(current), { align: "center" });
    }
  }, [current, shown, rows]);
  useEffect(() => {
    if (follow && number > 0 && box.current !== null) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [follow, number, lines]);
  const digits = Math.max(3, String(lines.length).length);
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- long text is scrolled with keys
    <div ref={box} className="log-box mono" tabIndex={0} role="log" aria-label="Log" aria-live="off" onWheel={(event) => event.deltaY < 0 && follow && onFollow(false)}>
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((item) => {
          const place = shown === null ? item.index : (shown[item.index] ?? 0);
          const line = lines[place] ?? "";
          const level = levelOf(line);
          return (
            <div key={item.key} className={`log-line${level === null ? "" : ` ${level}`}${marked.has(place) ? " hit" : ""}${place === current ? " now" : ""}`} style={{ transform: `translateY(${item.start}px)` }}>
              <span className="log-number" style={{ width: `${digits + 1}ch` }}>
                {place + 1}
              </span>
              {line}
            </div>
          );
        })}
      </div>
    </div>
  );
}
