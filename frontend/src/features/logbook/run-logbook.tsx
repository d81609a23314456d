/** The logbook of a run, as a tab of its page. */
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { exportAddress, runLogbookQuery } from "../../api/logbook";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { ErrorCard, Skeleton, YardLine } from "../../ui/parts";
import { sessionQuery } from "../shell/session-query";
import { LogbookView, type BookFilter } from "./logbook";
import { NoteBox } from "./note-box";

interface Props {
  run: string;
  artifactUri: string;
  search: Readonly<Record<string, string | undefined>>;
  onSearch: (change: Record<string, string>) => void;
}

/** The filter as the address holds it. */
export function filterOf(search: Readonly<Record<string, string | undefined>>): BookFilter {
  return {
    kinds: (search.kinds ?? "").split(",").filter(Boolean),
    query: search.q ?? "",
    entry: search.entry ?? "",
  };
}

/** The files that a logbook can be had as. */
export function Exports({ run, lineage = false }: { run: string | null; lineage?: boolean }): ReactElement {
  return (
    <>
      <a className="btn small" href={exportAddress(run, "markdown", lineage)} download>
        <Icon name="download" />
        Markdown
      </a>
      <a className="btn small" href={exportAddress(run, "html", lineage)} download>
        <Icon name="download" />
        HTML
      </a>
    </>
  );
}

export function RunLogbook({ run, artifactUri, search, onSearch }: Props): ReactElement {
  const lineage = search.lineage === "1";
  const book = useQuery(runLogbookQuery(run, lineage));
  const session = useQuery(sessionQuery);
  return (
    <div className="page-body">
      <div className="row wrap">
        <label className="row">
          <input type="checkbox" checked={lineage} onChange={(event) => onSearch({ lineage: event.target.checked ? "1" : "" })} />
          Lineage
        </label>
        <span className="faint">with the runs it goes back to</span>
        <span className="grow" />
        <Exports run={run} lineage={lineage} />
      </div>
      <NoteBox run={run} artifactUri={artifactUri} />
      {book.error !== null && <ErrorCard title="The logbook could not be read" error={book.error} retry={() => void book.refetch()} />}
      {book.data === undefined ? (
        <Skeleton />
      ) : (
        <LogbookView
          entries={book.data.entries}
          counts={book.data.counts}
          filter={filterOf(search)}
          onFilter={({ kinds, query }) => onSearch({ kinds: kinds.join(","), q: query, entry: "" })}
          run={run}
          names={lineage}
          user={session.data?.user ?? ""}
        />
      )}
      <YardLine line={yard.logbook(run)} />
    </div>
  );
}
