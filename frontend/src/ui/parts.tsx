/** The small parts every page is put together from: states, chips, copies, errors, skeletons. */
import { useEffect, useState, useSyncExternalStore, type ReactElement, type ReactNode } from "react";

import { ago, duration, exact } from "../lib/format";
import { isLive, stateOf } from "../lib/states";
import { Icon, type IconName } from "./icon";

/** A state as word, icon and colour. */
export function StateBadge({ status }: { status: string }): ReactElement {
  const state = stateOf(status);
  return (
    <span className={`state tone-${state.tone}`}>
      <Icon name={state.icon} />
      {state.word}
    </span>
  );
}

/** A button that copies a text and says so. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }): ReactElement {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) {
      return undefined;
    }
    const timer = setTimeout(() => setDone(false), 1200);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      className="btn quiet small icon"
      title={done ? "Copied" : label}
      aria-label={done ? "Copied" : label}
      onClick={() => void copyText(text).then(setDone)}
    >
      <Icon name={done ? "tick" : "copy"} />
    </button>
  );
}

/** Put a text on the clipboard; over plain http browsers only allow the old way. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** The `yard` line that does the same as what stands beside it. */
export function YardLine({ line }: { line: string }): ReactElement {
  return (
    <div className="yard-line" title="The same from a terminal">
      <code>{line}</code>
      <Copy text={line} label="Copy the command" />
    </div>
  );
}

/** What failed, why, what to do, and again. */
export function ErrorCard({ title, error, retry }: { title: string; error: unknown; retry?: () => void }): ReactElement {
  const reason = error instanceof Error ? error.message : String(error);
  return (
    <div className="note-box red" role="alert">
      <strong className="row tone-red">
        <Icon name="warn" />
        {title}
      </strong>
      <span>{reason}</span>
      {retry !== undefined && (
        <div>
          <button type="button" className="btn small" onClick={retry}>
            <Icon name="refresh" />
            Try again
          </button>
        </div>
      )}
    </div>
  );
}

/** Grey bars in the place of what is being loaded. */
export function Skeleton({ rows = 6, height = 20 }: { rows?: number; height?: number }): ReactElement {
  return (
    <div aria-busy="true" aria-label="Loading" style={{ display: "grid", gap: 10, padding: 16 }}>
      {Array.from({ length: rows }, (_, at) => (
        <div key={at} className="skeleton" style={{ height, width: `${95 - ((at * 17) % 40)}%` }} />
      ))}
    </div>
  );
}

/** The time now, told again every so often. */
export function useNow(every = 1000): number {
  const clock = clockOf(every);
  return useSyncExternalStore(clock.subscribe, clock.now);
}

interface Clock {
  subscribe: (listener: () => void) => () => void;
  now: () => number;
}

const clocks = new Map<number, Clock>();

/** One timer for all who want the time as often: a table shows hundreds of times. */
function clockOf(every: number): Clock {
  const known = clocks.get(every);
  if (known !== undefined) {
    return known;
  }
  const listeners = new Set<() => void>();
  let time = Date.now();
  let timer: ReturnType<typeof setInterval> | undefined;
  const tick = (): void => {
    time = Date.now();
    listeners.forEach((listener) => listener());
  };
  const clock: Clock = {
    now: () => {
      // Nobody kept it going: it has stood still meanwhile.
      if (timer === undefined && Date.now() - time > every) {
        time = Date.now();
      }
      return time;
    },
    subscribe: (listener) => {
      listeners.add(listener);
      timer ??= setInterval(tick, every);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0) {
          clearInterval(timer);
          timer = undefined;
        }
      };
    },
  };
  clocks.set(every, clock);
  return clock;
}

/** How long ago, with the exact time on hover. */
export function Ago({ ms }: { ms: number | null | undefined }): ReactElement {
  const now = useNow(10_000);
  return <span title={exact(ms)}>{ago(ms, now)}</span>;
}

/** How long a run took, or has taken so far. */
export function Duration({ start, end, status }: { start: number | null; end: number | null | undefined; status: string }): ReactElement {
  return isLive(status) && (end ?? null) === null ? (
    <Ticking start={start} />
  ) : (
    <span>{duration(start === null || end === null || end === undefined ? null : end - start)}</span>
  );
}

function Ticking({ start }: { start: number | null }): ReactElement {
  const now = useNow(1000);
  return <span>{duration(start === null ? null : now - start)}</span>;
}

/** A quiet button with an icon and a name for those who do not see it. */
export function IconButton(props: {
  icon: IconName;
  label: string;
  onClick: () => void;
  pressed?: boolean;
  filled?: boolean;
  small?: boolean;
  disabled?: boolean;
}): ReactElement {
  return (
    <button
      type="button"
      className={`btn quiet icon${props.small === false ? "" : " small"}`}
      title={props.label}
      aria-label={props.label}
      aria-pressed={props.pressed}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      <Icon name={props.icon} filled={props.filled ?? false} />
    </button>
  );
}

/** One of a few choices, side by side. */
export function Segments<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}): ReactElement {
  return (
    <div className="segments" role="group" aria-label={props.label}>
      {props.options.map(([value, word]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {word}
        </button>
      ))}
    </div>
  );
}

/** The head of a page: name, facts, actions. */
export function PageHead({ title, children, facts }: { title: ReactNode; children?: ReactNode; facts?: ReactNode }): ReactElement {
  return (
    <header className="page-head">
      <h1 className="row">{title}</h1>
      <div className="page-facts row wrap muted">{facts}</div>
      <div className="page-actions row wrap">{children}</div>
    </header>
  );
}
