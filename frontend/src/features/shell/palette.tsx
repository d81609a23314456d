/** Jump anywhere: pages, experiments, runs, jobs, models, nodes, by name or id. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { clusterQuery } from "../../api/cluster";
import { jobsQuery } from "../../api/jobs";
import { experimentsQuery, tableQuery } from "../../api/runs";
import { modelsQuery } from "../../api/models";
import { jobName } from "../../lib/job-states";
import { best, holds } from "../../lib/search";
import { stateOf } from "../../lib/states";
import { Icon, type IconName } from "../../ui/icon";

interface Entry {
  id: string;
  name: string;
  kind: string;
  icon: IconName;
  go: { to: string; search?: Record<string, string>; hash?: string };
}

const PAGES: Entry[] = [
  { id: "home", name: "Home", kind: "page", icon: "home", go: { to: "/app/home" } },
  { id: "experiments", name: "Experiments", kind: "page", icon: "experiments", go: { to: "/app/experiments" } },
  { id: "runs", name: "Runs of all experiments", kind: "page", icon: "runs", go: { to: "/app/runs" } },
  { id: "models", name: "Models", kind: "page", icon: "models", go: { to: "/app/models" } },
  { id: "reports", name: "Reports", kind: "page", icon: "report", go: { to: "/app/reports" } },
  { id: "data", name: "Data", kind: "page", icon: "data", go: { to: "/app/data" } },
  { id: "queue", name: "Queue of jobs", kind: "page", icon: "queue", go: { to: "/app/queue" } },
  { id: "submit", name: "Submit a job", kind: "page", icon: "plus", go: { to: "/app/submit" } },
  { id: "notebook", name: "Start a notebook", kind: "page", icon: "plus", go: { to: "/app/submit", search: { kind: "notebook" } } },
  { id: "nodes", name: "Nodes and GPUs", kind: "page", icon: "nodes", go: { to: "/app/nodes" } },
  { id: "leases", name: "Leases: the calendar of nodes", kind: "page", icon: "calendar", go: { to: "/app/leases" } },
  { id: "alerts", name: "Alerts", kind: "page", icon: "bell", go: { to: "/app/alerts" } },
  { id: "log", name: "Log of events", kind: "page", icon: "log", go: { to: "/app/log" } },
  { id: "settings", name: "Settings: tokens, members, teams, quotas, queues", kind: "page", icon: "sliders", go: { to: "/app/settings" } },
  { id: "audit", name: "Audit: who did what", kind: "page", icon: "sliders", go: { to: "/app/settings", search: { tab: "audit" } } },
];

/** The filter that finds runs by a part of their name, or one by its id. */
export function runFilter(query: string): string {
  const wanted = query.trim();
  if (/^[0-9a-f]{32}$/.test(wanted)) {
    return `attributes.run_id = '${wanted}'`;
  }
  const safe = wanted.replace(/['"\\%]/g, "");
  return safe.length < 2 ? "" : `attributes.run_name ILIKE '%${safe}%'`;
}

function useEntries(query: string): Entry[] {
  const experiments = useQuery(experimentsQuery());
  const models = useQuery(modelsQuery());
  const jobs = useQuery(jobsQuery({ limit: 500 }));
  const cluster = useQuery(clusterQuery());
  const ids = useMemo(() => (experiments.data ?? []).map((one) => one.experiment_id), [experiments.data]);
  const filter = runFilter(query);
  const runs = useQuery({
    ...tableQuery({
      experiment_ids: ids,
      filter,
      order_by: ["attributes.start_time DESC"],
      view: "ACTIVE_ONLY",
      limit: 12,
      metrics: [],
      params: [],
      tags: [],
    }),
    enabled: ids.length > 0,
    placeholderData: (before) => before,
  });
  return useMemo(() => {
    const table = runs.data;
    const found: Entry[] = (table?.run_id ?? []).map((id, at) => ({
      id,
      name: table?.name[at] ?? id,
      kind: `run · ${stateOf(table?.status[at] ?? "").word}`,
      icon: "runs",
      go: { to: `/app/runs/${id}` },
    }));
    const places: Entry[] = [
      ...PAGES,
      ...(experiments.data ?? []).map(
        (one): Entry => ({
          id: one.experiment_id,
          name: one.name,
          kind: "experiment",
          icon: "experiments",
          go: { to: "/app/runs", search: { exp: one.experiment_id } },
        }),
      ),
      ...(models.data ?? []).map(
        (one): Entry => ({ id: `m:${one.name}`, name: one.name, kind: "model", icon: "models", go: { to: `/app/models/${encodeURIComponent(one.name)}` } }),
      ),
    ];
    const nodes = (cluster.data?.nodes ?? []).map(
      (one): Entry => ({ id: `n:${one.node_id}`, name: one.node_id, kind: `node · ${one.state}`, icon: "nodes", go: { to: "/app/nodes", search: { node: one.node_id } } }),
    );
    const known = (jobs.data?.jobs ?? []).map(
      (one): Entry => ({ id: one.job_id, name: jobName(one), kind: `job · ${one.state}`, icon: "queue", go: { to: `/app/jobs/${one.job_id}` } }),
    );
    // A job without a word typed is one of many; they come once someone asks.
    const asked = query.trim() === "" ? [] : best(query, known, (entry) => `${entry.name} ${entry.id}`, 8);
    const elsewhere = best(query, [...places, ...nodes], (entry) => entry.name, 10);
    // Runs were asked for by that very word: what merely has its letters in order comes after them.
    const named = elsewhere.filter((entry) => holds(query, entry.name));
    const alike = elsewhere.filter((entry) => !holds(query, entry.name));
    return [...named, ...asked, ...found, ...alike];
  }, [query, runs.data, experiments.data, models.data, jobs.data, cluster.data]);
}

export function Palette({ onClose }: { onClose: () => void }): ReactElement {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const entries = useEntries(useDeferredValue(query));
  const navigate = useNavigate();
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  const go = (entry: Entry | undefined): void => {
    if (entry !== undefined) {
      onClose();
      void navigate({ to: entry.go.to, search: entry.go.search ?? {}, ...(entry.go.hash === undefined ? {} : { hash: entry.go.hash }) });
    }
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt((at + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(entries[at]);
    }
  };
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- a click beside the box closes it
    <dialog
      ref={box}
      className="palette"
      aria-label="Search or jump"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === box.current && onClose()}
      onKeyDown={keys}
    >
      <input
        className="palette-input"
        aria-label="Search or jump"
        placeholder="A run, a job, an experiment, a model, a node, a page…"
        value={query}
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={entries[at] === undefined ? undefined : `palette-${at}`}
        onChange={(event) => {
          setQuery(event.target.value);
          setAt(0);
        }}
      />
      <div id="palette-list" role="listbox" className="palette-list" aria-label="Found">
        {entries.map((entry, place) => (
          <button
            type="button"
            key={`${entry.kind}:${entry.id}`}
            id={`palette-${place}`}
            role="option"
            aria-selected={place === at}
            tabIndex={-1}
            className="menu-item"
            onPointerMove={() => setAt(place)}
            onClick={() => go(entry)}
          >
            <Icon name={entry.icon} />
            <span className="grow clip">{entry.name}</span>
            <span className="faint">{entry.kind}</span>
          </button>
        ))}
        {entries.length === 0 && <p className="faint" style={{ padding: 12 }}>Nothing has that name.</p>}
      </div>
    </dialog>
  );
}
