/** Runs: the table, the charts, and the filter over both. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useMemo, useState, type ReactElement } from "react";

import "../../features/table/table.css";
import { experimentsQuery, namesQuery, type KeyNames } from "../../api/runs";
import { Fault } from "../../api/client";
import { FilterBox } from "../../features/filter/filter-box";
import { sessionQuery } from "../../features/shell/session-query";
import { ColumnPicker } from "../../features/table/column-picker";
import { useRuns } from "../../features/table/use-runs";
import { GroupMenu, SavedMenu } from "../../features/table/view-menus";
import { inOrder } from "../../lib/metric-names";
import type { Pane } from "../../lib/view";
import { Splitter } from "../../ui/splitter";
import { ErrorCard, Segments, Skeleton } from "../../ui/parts";
import { ExperimentMenu } from "./experiment-menu";
import { NoRuns } from "../../features/teach/no-runs";
import { columnsOf, firstColumns, wholeColumns } from "./first";
import { TablePane } from "./table-pane";
import { useNarrow } from "../../ui/use-narrow";
import { useRows } from "./use-rows";
import { useView } from "./use-view";
import { wishOf } from "./wish";

const ChartsPane = lazy(() => import("./charts-pane").then((found) => ({ default: found.ChartsPane })));
const NO_NAMES: KeyNames = { metrics: [], params: [], tags: [] };
/** Taken for what is on screen until the table says so. */
const FIRST_SEEN = Array.from({ length: 100 }, (_, at) => at);
/** Milliseconds for which rows wait for the names of the columns, so as to come with their cells. */
const PATIENCE = 400;
const PANES: readonly (readonly [Pane, string])[] = [
  ["table", "Table"],
  ["both", "Both"],
  ["charts", "Charts"],
];

export function RunsPage(): ReactElement {
  const [view, change] = useView();
  const narrow = useNarrow();
  const experiments = useQuery(experimentsQuery());
  const all = useMemo(() => experiments.data ?? [], [experiments.data]);
  const ids = useMemo(
    () => (view.experiments.length > 0 ? view.experiments : all.map((one) => one.experiment_id).toSorted()),
    [view.experiments, all],
  );
  const namesFound = useQuery(namesQuery(ids));
  const names = namesFound.data ?? NO_NAMES;
  const columns = useMemo(() => columnsOf(view.columns, names, ids.length > 1), [view.columns, names, ids.length]);
  const isKnown = useWaited(view.columns !== null || !namesFound.isPending);
  const needed = useMemo(() => firstColumns(columns), [columns]);
  const whole = useMemo(() => wholeColumns(view), [view]);
  const { state, store, see } = useRuns(useMemo(() => wishOf(view, isKnown ? ids : []), [view, ids, isKnown]), needed, FIRST_SEEN, whole);
  const rows = useRows(view, state);
  const filterFault = state.fault instanceof Fault && state.fault.status === 400 ? state.fault.message : null;
  const known = useMemo(() => {
    const table = state.table;
    return (field: string): string[] => {
      const [, kind, key] = /^(params|tags)\.[`"]?(.*?)[`"]?$/.exec(field) ?? [];
      const cells = kind === "params" ? table?.params[key ?? ""] : table?.tags[key ?? ""];
      // Cells that were not read yet are holes.
      return inOrder([...new Set(cells ?? [])].filter((value): value is string => typeof value === "string")).slice(0, 40);
    };
  }, [state.table]);
  const nameOf = useMemo(() => new Map(all.map((one) => [one.experiment_id, one.name])), [all]);
  if (experiments.error !== null) {
    return (
      <div className="page-body">
        <ErrorCard title="The experiments could not be read" error={experiments.error} retry={() => void experiments.refetch()} />
      </div>
    );
  }
  const isEmpty = state.table !== null && state.table.run_id.length === 0 && view.filter === "" && view.only.length === 0 && !view.deleted && !state.loading;
  const pane = narrow && view.pane === "both" ? "table" : view.pane;
  const table = (
    <TablePane view={view} change={change} state={state} store={store} rows={rows} columns={columns} experiments={nameOf} onSeen={see} narrow={narrow} fault={filterFault === null ? state.fault : null} />
  );
  const charts = (
    <Suspense fallback={<Skeleton />}>
      <ChartsPane view={view} change={change} table={state.table} version={state.version} names={names} charted={rows.charted} groups={rows.groups} shown={rows.shown} columns={columns} store={store} />
    </Suspense>
  );
  return (
    <>
      <div className="runs-bar">
        <ExperimentMenu experiments={all} chosen={view.experiments} onChange={(chosen) => change({ experiments: chosen, columns: null, ticked: [], hidden: [], zoom: null })} />
        <FilterBox value={view.filter} names={names} known={known} error={filterFault} onChange={(filter) => change({ filter })} />
        <div className="row wrap">
          <Chips only={view.only} onChange={(only) => change({ only })} />
          <ColumnPicker names={names} columns={columns} onChange={(next) => change({ columns: next })} />
          <GroupMenu names={names} group={view.group} onChange={(group) => change({ group })} />
          <SavedMenu view={view} experiment={view.experiments.length === 1 ? view.experiments[0] : undefined} onApply={change} />
          <Segments label="What to show" value={pane} options={narrow ? PANES.filter(([one]) => one !== "both") : PANES} onChange={(next) => change({ pane: next })} />
        </div>
      </div>
      <Body isWaiting={state.table === null && state.loading && ids.length > 0} isEmpty={isEmpty || (experiments.data !== undefined && ids.length === 0)} pane={pane} split={view.split} table={table} charts={charts} onSplit={(split) => change({ split })} />
    </>
  );
}

/** Quick filters: failed, mine, of the last day. */
function Chips({ only, onChange }: { only: readonly string[]; onChange: (only: string[]) => void }): ReactElement {
  const session = useQuery(sessionQuery);
  const chips: (readonly [string, string])[] = [["failed", "Failed"], ...(session.data === undefined ? [] : [[`by:${session.data.user}`, "Mine"] as const]), ["day", "Last day"]];
  // Whose link this is stays told, also to someone else.
  const others = only.filter((one) => one.startsWith("by:") && !chips.some(([key]) => key === one)).map((one) => [one, `By ${one.slice(3)}`] as const);
  return (
    <span className="row" role="group" aria-label="Quick filters">
      {[...chips, ...others].map(([key, word]) => (
        <button key={key} type="button" className="btn small chip-button" aria-pressed={only.includes(key)} onClick={() => onChange(only.includes(key) ? only.filter((one) => one !== key) : [...only, key])}>
          {word}
        </button>
      ))}
    </span>
  );
}

/** Whether something is known, or has been waited for long enough. */
function useWaited(isKnown: boolean): boolean {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setOver(true), PATIENCE);
    return () => clearTimeout(timer);
  }, []);
  return isKnown || isOver;
}

interface BodyProps {
  isWaiting: boolean;
  isEmpty: boolean;
  pane: Pane;
  split: number;
  table: ReactElement;
  charts: ReactElement;
  onSplit: (split: number) => void;
}

function Body({ isWaiting, isEmpty, pane, split, table, charts, onSplit }: BodyProps): ReactElement {
  if (isWaiting) {
    return <Skeleton rows={14} />;
  }
  if (isEmpty) {
    return <NoRuns />;
  }
  if (pane === "both") {
    return <Splitter share={split} left={table} right={charts} onChange={onSplit} />;
  }
  return <div className="split-side">{pane === "table" ? table : charts}</div>;
}
