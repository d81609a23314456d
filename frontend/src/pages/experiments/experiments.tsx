/** Experiments: find one, make one, delete and restore. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState, type FormEvent, type ReactElement } from "react";

import { json } from "../../api/client";
import { createExperiment, deleteExperiment, experimentsQuery, keys, restoreExperiment, type ExperimentSummary } from "../../api/runs";
import { count, grouped } from "../../lib/format";
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
          Show {ticked.length === 0 ? "ticked" : count(ticked.length, "experiment")} together
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
                  <th style={{ width: 30 }} aria-label="Tick" />
                  <th>Name</th>
                  <th className="num">Runs</th>
                  <th>State</th>
                  <th className="wide-only">Last run</th>
                  <th className="wide-only">Created</th>
                  <th aria-label="Actions" />
                </tr>
              </thead>
              <tbody>
                {shown.map((one) => (
                  <tr key={one.experiment_id}>
                    <td>
                      <input
                        type="checkbox"
                        className="tick"
                        aria-label={`Tick ${one.name}`}
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
                    <td>{one.running > 0 ? <StateBadge status="RUNNING" /> : <span className="faint">Idle</span>}</td>
                    <td className="muted wide-only">
                      <Ago ms={one.last_start_ms} />
                    </td>
                    <td className="muted wide-only">
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
        {fault !== null && <ErrorCard title="The experiment was not made" error={fault} />}
        <label className="label">
          Name
          <input className="field" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <p className="muted">A script makes one by itself: <code>mlflow.set_experiment(&quot;{name || "name"}&quot;)</code>.</p>
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
