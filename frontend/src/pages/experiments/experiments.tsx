/** Experiments: find one, make one, delete and restore. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState, type FormEvent, type ReactElement } from "react";

import { currentTeam, json } from "../../api/client";
import { createExperiment, deleteExperiment, experimentsQuery, keys, namesQuery, restoreExperiment, type ExperimentSummary, type RunsTable } from "../../api/runs";
import { count, grouped, short } from "../../lib/format";
import { scoresOf } from "../../lib/scores";
import { matcher } from "../../lib/search";
import { joinList } from "../../lib/view";
import { yard } from "../../lib/yard-line";
import { NoRuns } from "../../features/teach/no-runs";
import { Icon } from "../../ui/icon";
import { Dialog } from "../../ui/menu";
import { Ago, ErrorCard, IconButton, PageHead, Skeleton, StateBadge, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

const deletedQuery = {
  queryKey: ["experiments", "deleted"],
  queryFn: async () => (await json<{ experiments: ExperimentSummary[] }>("/api/v1/experiments", { query: { deleted: "1" } })).experiments,
};

export function ExperimentsPage(): ReactElement {
  const search = useSearch({ from: "/app/experiments" });
  const navigate = useNavigate();
  const client = useQueryClient();
  const showDeleted = search.deleted === "1";
  const active = useQuery({ ...experimentsQuery(), enabled: !showDeleted });
  const gone = useQuery({ ...deletedQuery, enabled: showDeleted });
  const found = showDeleted ? gone : active;
  const [ticked, setTicked] = useState<readonly string[]>([]);
  const [making, setMaking] = useState(false);
  const text = search.q ?? "";
  const shown = useMemo(() => (found.data ?? []).filter((one) => matcher(text)(one.name)), [found.data, text]);
  const set = (change: Record<string, string>): void => void navigate({ to: "/app/experiments", search: { ...search, ...change }, replace: true });
  const refresh = (): Promise<void> => client.invalidateQueries({ queryKey: [keys.experiments()[0]] });
  const remove = (one: ExperimentSummary): void => {
    deleteExperiment(one.experiment_id).then(
      () => {
        void refresh();
        toast(`Deleted ${one.name}`, { word: "Undo", run: () => void restoreExperiment(one.experiment_id).then(refresh) }, yard.editExperiment(one.name, "--delete"));
      },
      (cause: unknown) => complain("The experiment was not deleted", cause),
    );
  };
  const restore = (one: ExperimentSummary): void => {
    restoreExperiment(one.experiment_id).then(
      () => {
        void refresh();
        toast(`Restored ${one.name}`, null, yard.editExperiment(one.name, "--restore"));
      },
      (cause: unknown) => complain("The experiment was not restored", cause),
    );
  };
  return (
    <>
      <PageHead title="Experiments" facts={<span>{found.data === undefined ? "" : count(shown.length, "experiment")}</span>}>
        <input className="field" type="search" data-filter placeholder="Find an experiment" aria-label="Find an experiment" value={text} onChange={(event) => set({ q: event.target.value })} />
        <button type="button" className="btn" aria-pressed={showDeleted} onClick={() => set({ deleted: showDeleted ? "" : "1" })}>
          Deleted
        </button>
        <Link className="btn" to="/app/runs" search={{ exp: joinList(ticked) }} disabled={ticked.length === 0}>
          Show {ticked.length === 0 ? "selected" : count(ticked.length, "experiment")} together
        </Link>
        <button type="button" className="btn" onClick={() => setMaking(true)}>
          <Icon name="plus" />
          New
        </button>
      </PageHead>
      <div className="page-body">
        {found.error !== null && <ErrorCard title="The experiments could not be read" error={found.error} retry={() => void found.refetch()} />}
        {found.data === undefined ? (
          <Skeleton />
        ) : found.data.length === 0 && !showDeleted ? (
          <NoRuns />
        ) : (
          <section className="card">
            <table className="plain">
              <thead>
                <tr>
                  <th style={{ width: 30 }} aria-label="Select" />
                  <th>Name</th>
                  <th className="num">Runs</th>
                  <th>State</th>
                  <th className="wide-only">Best</th>
                  <th className="wide-only">Latest</th>
                  <th className="wide-only">Trend</th>
                  <th className="wide-only">Owners</th>
                  <th className="wide-only">Last run</th>
                  <th className="wide-only">Created</th>
                  <th aria-label="Actions" />
                </tr>
              </thead>
              <tbody>
                {shown.map((one, row) => (
                  <tr key={one.experiment_id}>
                    <td>
                      <input
                        type="checkbox"
                        className="tick"
                        aria-label={`Select ${one.name}`}
                        checked={ticked.includes(one.experiment_id)}
                        onChange={() => setTicked(ticked.includes(one.experiment_id) ? ticked.filter((id) => id !== one.experiment_id) : [...ticked, one.experiment_id])}
                      />
                    </td>
                    <td>
                      <Link to="/app/runs" search={{ exp: one.experiment_id }}>
                        <b>{one.name}</b>
                      </Link>
                    </td>
                    <td className="num">{grouped(one.runs)}</td>
                    <td className="nowrap">{one.running > 0 ? <StateBadge status="RUNNING" /> : <span className="faint">Idle</span>}</td>
                    <Standing experiment={one} isRead={row < READ && !showDeleted} />
                    <td className="muted wide-only nowrap">
                      <Ago ms={one.last_start_ms} />
                    </td>
                    <td className="muted wide-only nowrap">
                      <Ago ms={one.created_ms} />
                    </td>
                    <td style={{ width: 40 }}>
                      {showDeleted ? (
                        <IconButton icon="restore" label={`Restore ${one.name} (${yard.editExperiment(one.name, "--restore")})`} onClick={() => restore(one)} />
                      ) : (
                        one.experiment_id !== "0" && <IconButton icon="trash" label={`Delete ${one.name} (${yard.editExperiment(one.name, "--delete")})`} onClick={() => remove(one)} />
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
        <YardLine line={yard.experiments()} />
      </div>
      {making && <NewExperiment onClose={() => setMaking(false)} onDone={refresh} />}
    </>
  );
}

/** Experiments of which the runs are looked at, and runs of each: the latest. */
const READ = 40;
const LATEST = 40;

/** How an experiment stands: its best run by its main metric, the latest, how it went over the last runs, and whose they are. */
function Standing({ experiment, isRead }: { experiment: ExperimentSummary; isRead: boolean }): ReactElement {
  const id = experiment.experiment_id;
  const enabled = isRead && experiment.runs > 0;
  const names = useQuery({ ...namesQuery([id]), enabled });
  const metric = useMemo(() => scoresOf([new Map((names.data?.metrics ?? []).map((name) => [name, 0]))], 1)[0]?.name, [names.data]);
  const table = useQuery({
    queryKey: ["standing", currentTeam(), id, metric ?? "", experiment.runs, experiment.last_start_ms],
    queryFn: ({ signal }) => json<RunsTable>("/api/v1/runs/table", { query: { experiment_id: [id], order_by: ["attributes.start_time DESC"], limit: LATEST, ...(metric === undefined ? {} : { metric: [metric] }) }, signal }),
    enabled: enabled && names.data !== undefined,
    staleTime: 30_000,
  });
  const { data } = table;
  const values = metric === undefined ? [] : (data?.metrics[metric]?.last ?? []).map((value) => (typeof value === "number" ? value : null));
  const best = metric === undefined ? -1 : (scoresOf([...values].map((value) => new Map([[metric, value]])), 1)[0]?.best ?? -1);
  const latest = values.findIndex((value) => value !== null);
  const owners = [...new Set(data?.user ?? [])].filter((user) => user !== "");
  const link = (at: number): ReactElement => (
    <Link to="/app/runs/$runId" params={{ runId: data?.run_id[at] ?? "" }} search={{}} title={`${data?.name[at] ?? ""}: ${metric ?? ""} ${String(values[at] ?? "")}`}>
      {short(values[at])}
    </Link>
  );
  return (
    <>
      <td className="wide-only nowrap">
        {best < 0 ? <span className="faint">—</span> : link(best)} <span className="faint">{best < 0 ? "" : metric}</span>
      </td>
      <td className="wide-only nowrap">{latest < 0 ? <span className="faint">—</span> : link(latest)}</td>
      <td className="wide-only">
        <Trend values={values.toReversed()} />
      </td>
      <td className="muted wide-only clip" style={{ maxWidth: 140 }} title={owners.join(", ")}>
        {owners.slice(0, 2).join(", ")}
        {owners.length > 2 && ` and ${owners.length - 2} more`}
      </td>
    </>
  );
}

/** The metric over the last runs, one after the other. */
function Trend({ values }: { values: readonly (number | null)[] }): ReactElement | null {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 2) {
    return null;
  }
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const points = known.map((value, at) => `${((at / (known.length - 1)) * 78 + 1).toFixed(1)},${(17 - ((value - low) / (high - low || 1)) * 15).toFixed(1)}`);
  return (
    <svg width={80} height={19} role="img" aria-label={`Trend over ${known.length} runs, ${short(low)} to ${short(high)}`}>
      <polyline points={points.join(" ")} fill="none" stroke="var(--accent)" strokeWidth={1.5} />
    </svg>
  );
}

function NewExperiment({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }): ReactElement {
  const [name, setName] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      await createExperiment(name.trim());
      await onDone();
      onClose();
    } catch (cause) {
      setFault(cause);
    }
  };
  return (
    <Dialog title="New experiment" onClose={onClose}>
      <form className="dialog-body" style={{ padding: 0 }} onSubmit={(event) => void submit(event)}>
        {fault !== null && <ErrorCard title="The experiment was not created" error={fault} />}
        <label className="label">
          Name
          <input className="field" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <p className="muted">Scripts create experiments automatically: <code>mlflow.set_experiment(&quot;{name || "name"}&quot;)</code>.</p>
        <YardLine line={yard.newExperiment(name || "NAME")} />
        <div className="dialog-foot">
          <button type="submit" className="btn primary" disabled={name.trim() === ""}>
            Make it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
