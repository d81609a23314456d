/** Home: what runs now, what ran lately, which models changed, what happened. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import "../../features/table/table.css";
import { eventsQuery } from "../../api/events";
import { modelsQuery } from "../../api/models";
import { experimentsQuery, namesQuery, type RunsTable, type TableWish } from "../../api/runs";
import { EventList } from "../../features/events/event-list";
import { Sparkline } from "../../features/table/sparkline";
import { useRuns } from "../../features/table/use-runs";
import { colourOf } from "../../lib/colour";
import { short } from "../../lib/format";
import { Ago, Duration, ErrorCard, Skeleton, StateBadge } from "../../ui/parts";
import { NoRuns } from "../../features/teach/no-runs";

const COUNT = 12;

/** The metrics to show of a run: those that say best how it goes. */
export function leading(metrics: readonly string[]): string[] {
  const rank = (name: string): number =>
    /^(val|eval)[/_].*(acc|loss|auc)/.test(name) ? 0 : /^(train[/_])?loss|^auc/.test(name) ? 1 : /loss|acc/.test(name) ? 2 : 3;
  return metrics.filter((name) => !name.startsWith("system/")).sort((a, b) => rank(a) - rank(b)).slice(0, 8);
}

function wish(ids: readonly string[], filter: string, limit: number): Omit<TableWish, "metrics" | "params" | "tags"> {
  return { experiment_ids: ids, filter, order_by: ["attributes.start_time DESC"], view: "ACTIVE_ONLY", limit };
}

export function HomePage(): ReactElement {
  const experiments = useQuery(experimentsQuery());
  const ids = useMemo(() => (experiments.data ?? []).slice(0, 200).map((one) => one.experiment_id).toSorted(), [experiments.data]);
  const names = useQuery(namesQuery(ids));
  const metrics = useMemo(() => leading(names.data?.metrics ?? []), [names.data]);
  const columns = useMemo(() => metrics.map((name) => `metric:${name}`), [metrics]);
  const nameOf = useMemo(() => new Map((experiments.data ?? []).map((one) => [one.experiment_id, one.name])), [experiments.data]);
  const running = useRuns(useMemo(() => wish(ids, "attributes.status = 'RUNNING'", 50), [ids]), columns);
  const recent = useRuns(useMemo(() => wish(ids, "", COUNT), [ids]), columns);
  if (experiments.error !== null) {
    return (
      <div className="page-body">
        <ErrorCard title="The runs could not be read" error={experiments.error} retry={() => void experiments.refetch()} />
      </div>
    );
  }
  if (experiments.data !== undefined && experiments.data.every((one) => one.runs === 0)) {
    return <NoRuns />;
  }
  return (
    <div className="page-body columns-2">
      <div className="stack">
        <RunsCard title="Running now" empty="Nothing is running." table={running.state.table} metrics={metrics} nameOf={nameOf} />
        <RunsCard agoToo title="Recent runs" empty="" table={recent.state.table} metrics={metrics} nameOf={nameOf} />
      </div>
      <div className="stack">
        <Models />
        <Events />
      </div>
    </div>
  );
}

interface CardProps {
  title: string;
  empty: string;
  table: RunsTable | null;
  metrics: readonly string[];
  nameOf: ReadonlyMap<string, string>;
  agoToo?: boolean;
}

function RunsCard({ title, empty, table, metrics, nameOf, agoToo = false }: CardProps): ReactElement {
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        <span className="faint">{table?.run_id.length}</span>
      </div>
      {table === null ? (
        <Skeleton rows={4} />
      ) : table.run_id.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>{empty}</p>
      ) : (
        <table className="plain home-runs">
          <tbody>
            {table.run_id.map((id, row) => {
              const lead = metrics.find((name) => (table.metrics[name]?.last[row] ?? null) !== null);
              return (
                <tr key={id}>
                  <td className="clip" style={{ maxWidth: 150 }}>
                    <Link className="row run-name" to="/app/runs/$runId" params={{ runId: id }} search={{}}>
                      <span className="dot" style={{ background: colourOf(id) }} />
                      <span className="clip">{table.name[row]}</span>
                    </Link>
                  </td>
                  <td>
                    <StateBadge status={table.status[row] ?? ""} />
                  </td>
                  <td className="wide-only clip" style={{ maxWidth: 92 }}>
                    <Link className="muted" to="/app/runs" search={{ exp: table.experiment_id[row] ?? "" }}>
                      {nameOf.get(table.experiment_id[row] ?? "")}
                    </Link>
                  </td>
                  <td className="wide-only">{lead !== undefined && <Sparkline run={id} metric={lead} colour={colourOf(id)} width={64} height={18} />}</td>
                  <td className="faint wide-only clip" style={{ maxWidth: 66 }} title={lead}>
                    {lead}
                  </td>
                  <td className="num">{lead !== undefined && short(table.metrics[lead]?.last[row])}</td>
                  <td className="num muted">
                    <Duration start={table.start_ms[row] ?? null} end={table.end_ms[row]} status={table.status[row] ?? ""} />
                  </td>
                  {agoToo && (
                    <td className="num muted wide-only nowrap">
                      <Ago ms={table.start_ms[row]} />
                    </td>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Models(): ReactElement {
  const models = useQuery(modelsQuery());
  return (
    <section className="card" aria-label="Recent models">
      <div className="card-head">
        <h2>Recent models</h2>
      </div>
      {models.data === undefined ? (
        <Skeleton rows={2} />
      ) : models.data.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>No model is registered yet. A run&apos;s artifacts offer it.</p>
      ) : (
        <table className="plain">
          <tbody>
            {models.data.slice(0, 6).map((model) => (
              <tr key={model.name}>
                <td>
                  <Link to="/app/models/$name" params={{ name: model.name }} search={{}}>
                    {model.name}
                  </Link>
                </td>
                <td>
                  {model.aliases?.map(({ alias, version }) => (
                    <span key={alias} className="chip accent" style={{ marginRight: 4 }}>
                      @{alias} v{version}
                    </span>
                  ))}
                </td>
                <td className="num muted">
                  <Ago ms={model.last_updated_timestamp} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Events(): ReactElement {
  const events = useQuery(eventsQuery({ limit: 60 }));
  const shown = (events.data ?? []).filter((event) => !/^(artifact\.written|run\.(logged|inputs)|session\.)/.test(event.kind)).slice(0, 12);
  return (
    <section className="card" aria-label="Recent events">
      <div className="card-head">
        <h2 className="grow">Recent events</h2>
        <Link className="btn quiet small" to="/app/log" search={{}}>
          All
        </Link>
      </div>
      {events.data === undefined ? <Skeleton rows={4} /> : <EventList events={shown} />}
    </section>
  );
}
