/** A logbook's entries by day, with filter, search, links to each, notes, and why a curve got worse. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type ReactElement } from "react";

import { previewAddress } from "../../api/artifacts";
import { removeNote, whyWorseQuery, type LogEntry } from "../../api/logbook";
import { clock, duration, exact } from "../../lib/format";
import { byDay, chosen, iconOf, KINDS, toneOf } from "../../lib/logbook";
import { Icon } from "../../ui/icon";
import { Copy, ErrorCard, IconButton, Skeleton } from "../../ui/parts";
import { complain } from "../../ui/toast";
import { Markdown } from "../markdown/markdown";
import { NoteBox } from "./note-box";
import "./logbook.css";

export interface BookFilter {
  kinds: readonly string[];
  query: string;
  /** the entry that the address names */
  entry: string;
}

interface Props {
  entries: readonly LogEntry[];
  counts: Readonly<Record<string, number>>;
  filter: BookFilter;
  onFilter: (filter: BookFilter) => void;
  /** the run it is of; none for a team */
  run: string | null;
  /** whether entries name their run */
  names: boolean;
  /** whether the caller may change somebody's note; the server has the last word */
  user: string;
}

export function LogbookView(props: Props): ReactElement {
  const { entries, filter } = props;
  const days = useMemo(() => byDay(chosen(entries, filter.kinds, filter.query)), [entries, filter.kinds, filter.query]);
  return (
    <>
      <FilterBar {...props} />
      {days.length === 0 && <p className="faint">{entries.length === 0 ? "Nothing has happened yet." : "No entry fits."}</p>}
      {days.map(({ day, entries: own }) => (
        <section key={day} aria-label={day}>
          <h2 className="logbook-day">{day}</h2>
          {own.map((entry) => (
            <OneEntry key={`${entry.run_id}${entry.id}`} entry={entry} {...props} />
          ))}
        </section>
      ))}
    </>
  );
}

function FilterBar({ counts, filter, onFilter }: Props): ReactElement | null {
  const flip = (kind: string): void => {
    const kinds = filter.kinds.includes(kind) ? filter.kinds.filter((one) => one !== kind) : [...filter.kinds, kind];
    onFilter({ ...filter, kinds });
  };
  // The notes of a digest are few and have no kinds to choose from.
  if (Object.keys(counts).length === 0) {
    return null;
  }
  return (
    <div className="logbook-bar">
      <input
        className="field"
        type="search"
        placeholder="Search the logbook"
        aria-label="Search the logbook"
        value={filter.query}
        onChange={(event) => onFilter({ ...filter, query: event.target.value })}
      />
      <div className="logbook-kinds" role="group" aria-label="Kinds of entries">
        {KINDS.filter(([kind]) => (counts[kind] ?? 0) > 0).map(([kind, word]) => (
          <button key={kind} type="button" className="btn small" aria-pressed={filter.kinds.includes(kind)} onClick={() => flip(kind)}>
            <Icon name={iconOf(kind)} />
            {word} <span className="faint">{counts[kind]}</span>
          </button>
        ))}
      </div>
    </div>
  );
}

function OneEntry({ entry, filter, run, names, user }: Props & { entry: LogEntry }): ReactElement {
  const box = useRef<HTMLElement>(null);
  const [why, setWhy] = useState(false);
  const named = filter.entry !== "" && filter.entry === entry.id;
  useEffect(() => {
    if (named) {
      box.current?.scrollIntoView({ block: "center" });
    }
  }, [named]);
  const asks = entry.kind === "curve" && entry.tone !== "good" && typeof entry.step === "number" && entry.run_id !== "";
  return (
    <article ref={box} className={`logbook-entry${named ? " named" : ""}`} id={entry.id}>
      <time title={exact(entry.time_ms)}>{clock(entry.time_ms)}</time>
      <span className={`sign tone-${toneOf(entry.tone ?? "plain")}`}>
        <Icon name={iconOf(entry.kind)} title={entry.kind} />
      </span>
      <div>
        {names ? <Sentence entry={entry} /> : entry.sentence}
        {entry.is_suggestion === true && <span className="faint"> found by rule</span>}
        {asks && (
          <button type="button" className="btn quiet small" aria-expanded={why} onClick={() => setWhy(!why)}>
            Why did it get worse?
          </button>
        )}
        {entry.kind === "note" ? <NoteText entry={entry} run={run} user={user} /> : entry.detail !== "" && <Markdown text={entry.detail ?? ""} />}
        <Changes entry={entry} />
        {why && asks && <Why run={entry.run_id ?? ""} step={entry.step ?? 0} metric={entry.metric ?? ""} />}
      </div>
      <span className="tools">
        <Copy text={permalink(entry.id)} label="Copy a link to this entry" />
      </span>
    </article>
  );
}

/** A sentence with its run as a link: in it where it names the run, before it else. */
function Sentence({ entry }: { entry: LogEntry }): ReactElement {
  const [id, name] = [entry.run_id ?? "", entry.run_name ?? ""];
  if (id === "") {
    return <>{entry.sentence}</>;
  }
  const link = (
    <Link to="/app/runs/$runId" params={{ runId: id }} search={{ tab: "logbook" }}>
      {name === "" ? id.slice(0, 8) : name}
    </Link>
  );
  const at = name === "" ? -1 : entry.sentence.indexOf(name);
  return at < 0 ? (
    <>
      {link} {entry.sentence}
    </>
  ) : (
    <>
      {entry.sentence.slice(0, at)}
      {link}
      {entry.sentence.slice(at + name.length)}
    </>
  );
}

function permalink(id: string): string {
  const address = new URL(window.location.href);
  address.searchParams.set("entry", id);
  return address.toString();
}

function NoteText({ entry, run, user }: { entry: LogEntry; run: string | null; user: string }): ReactElement {
  const [editing, setEditing] = useState(false);
  const client = useQueryClient();
  const owner = entry.run_id === "" || entry.run_id === undefined ? run : entry.run_id;
  const remove = (): void => {
    removeNote(owner, entry.id).then(
      () => client.invalidateQueries({ queryKey: ["logbook"] }),
      (cause: unknown) => complain("The note was not removed", cause),
    );
  };
  if (editing) {
    return <NoteBox run={owner} note={entry} onDone={() => setEditing(false)} />;
  }
  return (
    <div className="logbook-note">
      <Markdown text={entry.detail ?? ""} />
      {(entry.pictures ?? []).map((path) => (
        <img key={path} src={previewAddress(owner ?? "", path)} alt={path} loading="lazy" />
      ))}
      {typeof entry.edited_ms === "number" && <span className="faint">edited {exact(entry.edited_ms)} </span>}
      {entry.actor === user && (
        <span className="row">
          <IconButton icon="edit" label="Edit the note" onClick={() => setEditing(true)} />
          <IconButton icon="trash" label="Remove the note" onClick={remove} />
        </span>
      )}
    </div>
  );
}

function Changes({ entry }: { entry: LogEntry }): ReactElement | null {
  const changes = entry.differences ?? [];
  if (changes.length === 0) {
    return null;
  }
  return (
    <table className="plain logbook-changes">
      <thead>
        <tr>
          <th>What</th>
          <th>Name</th>
          <th>Before</th>
          <th>After</th>
        </tr>
      </thead>
      <tbody>
        {changes.map((one) => (
          <tr key={`${one.what}-${one.name}`}>
            <td className="muted">{one.what}</td>
            <td>{one.name}</td>
            <td>{one.before === "" ? <span className="faint">none</span> : one.before}</td>
            <td>{one.after === "" ? <span className="faint">none</span> : one.after}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What else changed around a step, what stands out most first. */
export function Why({ run, step, metric }: { run: string; step: number; metric: string }): ReactElement {
  const found = useQuery(whyWorseQuery(run, step, metric));
  if (found.error !== null) {
    return <ErrorCard title="The causes could not be read" error={found.error} retry={() => void found.refetch()} />;
  }
  if (found.data === undefined) {
    return <Skeleton rows={3} />;
  }
  const { sentence, suspects, missing } = found.data;
  return (
    <div className="why-worse" role="region" aria-label="What else changed">
      <b>{sentence}</b>
      <ul>
        {suspects.map((suspect) => (
          <li key={suspect.sentence}>
            <span className="chip">{suspect.kind}</span> {suspect.sentence}
            {suspect.before_ms !== null && (
              <span className="faint">
                {" "}
                {duration(Math.abs(suspect.before_ms))} {suspect.before_ms >= 0 ? "before" : "after"}
              </span>
            )}
          </li>
        ))}
      </ul>
      {missing.map((words) => (
        <div key={words} className="faint">
          {words}
        </div>
      ))}
    </div>
  );
}
