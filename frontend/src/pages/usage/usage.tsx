/** Usage: where a month's GPU time went, what it cost, what was lost and why, and what budgets have left. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactElement, type ReactNode } from "react";

import { loadSession } from "../../api/session";
import { budgetsQuery, closedMonthsQuery, closeMonth, csvLink, usageQuery } from "../../api/usage";
import type { Budget, UsageGroup, UsageReport } from "../../api/usage";
import { CLASSES, hours, money, months, parts, percent } from "../../lib/usage";
import { shell } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Ago, ErrorCard, PageHead, Segments, Skeleton, useNow, YardLine } from "../../ui/parts";
import { toast } from "../../ui/toast";
import "./usage.css";

const BY = [
  ["team", "Team"],
  ["user", "User"],
  ["project", "Project"],
  ["job", "Job"],
  ["node", "Node"],
  ["gpu", "GPU type"],
  ["week", "Week"],
] as const;
const MONTHS = 13;
const MOST_ROWS = 200;

export function UsagePage(): ReactElement {
  const search: Record<string, string> = useSearch({ from: "/app/usage" });
  const navigate = useNavigate();
  const choices = months(useNow(60_000), MONTHS);
  const month = search.month ?? choices[0] ?? "";
  const by = BY.find(([one]) => one === search.by)?.[0] ?? "team";
  const report = useQuery({ ...usageQuery({ month, by }), placeholderData: (before) => before });
  const set = (change: Record<string, string>): void =>
    void navigate({ to: "/app/usage", search: { ...search, ...change }, replace: true, resetScroll: false });
  return (
    <>
      <PageHead title="Usage" facts={report.data !== undefined && <State report={report.data} />}>
        <select
          className="field"
          aria-label="Month"
          value={month}
          onChange={(event) => set({ month: event.target.value })}
        >
          {(choices.includes(month) ? choices : [month, ...choices]).map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <Segments label="Group by" value={by} options={BY} onChange={(next) => set({ by: next })} />
        <a className="btn" href={csvLink({ month, by })} download={`usage-${month}-${by}.csv`}>
          <Icon name="download" />
          CSV
        </a>
        <Close month={month} report={report.data} />
        <Link className="btn" to="/app/fleet" search={{}}>
          <Icon name="nodes" />
          Fleet over time
        </Link>
      </PageHead>
      <div className="page-body use-stack">
        {report.error !== null && (
          <ErrorCard title="Usage could not be read" error={report.error} retry={() => void report.refetch()} />
        )}
        {report.data === undefined ? report.error === null && <Skeleton /> : <Report report={report.data} by={by} />}
        <Budgets />
        <YardLine line={`yard usage --month ${shell(month)} --by ${by}`} />
      </div>
    </>
  );
}

function State({ report }: { report: UsageReport }): ReactElement {
  return report.closed_ms === null || report.closed_ms === undefined ? (
    <span>open: figures can still change</span>
  ) : (
    <span>
      closed <Ago ms={report.closed_ms} /> by {report.closed_by}
    </span>
  );
}

/** Admins freeze a month that is over. */
function Close({ month, report }: { month: string; report: UsageReport | undefined }): ReactNode {
  const session = useQuery({ queryKey: ["session"], queryFn: loadSession, staleTime: 60_000 });
  const closed = useQuery(closedMonthsQuery());
  const client = useQueryClient();
  const isOver = month < (months(useNow(60_000), 1)[0] ?? "");
  const isClosed = closed.data?.months.some((one) => one.month === month) ?? true;
  if (session.data?.is_admin !== true || !isOver || isClosed || report === undefined) {
    return null;
  }
  const close = async (): Promise<void> => {
    if (!window.confirm(`Close ${month}? Its figures are kept as they are now, for good.`)) {
      return;
    }
    try {
      await closeMonth(month);
      toast(`${month} is closed.`);
    } catch (cause) {
      toast(cause instanceof Error ? cause.message : String(cause));
    }
    await Promise.all(["usage", "closed-months"].map((key) => client.invalidateQueries({ queryKey: [key] })));
  };
  return (
    <button type="button" className="btn" onClick={() => void close()}>
      Close month
    </button>
  );
}

function Report({ report, by }: { report: UsageReport; by: string }): ReactElement {
  const { total, currency } = report;
  return (
    <>
      <dl className="use-numbers">
        <Number word="GPU-hours" value={hours(total.gpu_hours)} />
        <Number word="Goodput" value={percent(total.goodput)} />
        <Number word="Cost" value={money(total.cost, currency)} />
        <Number word="Carbon" value={`${hours(total.carbon_kg)} kg`} note={`at ${report.carbon_g_per_kwh} g/kWh`} />
        <Number word="Leased" value={`${hours(total.lease_gpu_hours ?? 0)} h`} />
        {report.job_mtbf_hours !== null && (
          <Number
            word="Between interruptions"
            value={`${hours(report.job_mtbf_hours)} h`}
            note={`${report.interruptions} of them`}
          />
        )}
        {report.node_mtbf_hours !== null && (
          <Number
            word="Between node failures"
            value={`${hours(report.node_mtbf_hours)} h`}
            note={`${report.node_failures} of them`}
          />
        )}
      </dl>
      <section className="card use-pad" aria-label="The fleet's time">
        <Bar classes={report.fleet} tall />
        <ul className="use-legend">
          {CLASSES.filter(({ name }) => (report.fleet[name] ?? 0) > 0).map(({ name, word, colour, what }) => (
            <li key={name} title={what}>
              <i style={{ background: colour }} />
              {word} <b>{hours(report.fleet[name] ?? 0)} h</b>
            </li>
          ))}
          <li className="muted">of {hours(report.wall_gpu_hours)} GPU-hours of the fleet</li>
        </ul>
      </section>
      <Groups report={report} by={by} />
      <Losses report={report} />
    </>
  );
}

function Number({ word, value, note }: { word: string; value: string; note?: string }): ReactElement {
  return (
    <div>
      <dt>{word}</dt>
      <dd>
        {value} {note !== undefined && <small>{note}</small>}
      </dd>
    </div>
  );
}

/** GPU time by class, as one bar. */
function Bar({ classes, tall = false }: { classes: Readonly<Record<string, number>>; tall?: boolean }): ReactElement {
  const found = parts(classes);
  const words = found.map(({ name, percent: part }) => `${wordOf(name)} ${part.toFixed(1)} %`).join(", ");
  return (
    <div className={`use-bar${tall ? " tall" : ""}`} role="img" aria-label={words} title={words}>
      {found.map(({ name, percent: part }) => (
        <i key={name} style={{ width: `${part}%`, background: CLASSES.find((one) => one.name === name)?.colour }} />
      ))}
    </div>
  );
}

const wordOf = (name: string): string => CLASSES.find((one) => one.name === name)?.word ?? name;

function Groups({ report, by }: { report: UsageReport; by: string }): ReactElement {
  if (report.groups.length === 0) {
    return (
      <div className="empty">
        <h2>No GPU time was used in {report.month}</h2>
        <p className="muted">Submit a job, and what it holds is counted here:</p>
        <pre>yard submit --gpus 1 -- python train.py</pre>
      </div>
    );
  }
  const hasQuota = report.groups.some((one) => one.quota_ratio !== null && one.quota_ratio !== undefined);
  return (
    <section className="card">
      <table className="plain">
        <thead>
          <tr>
            <th>{BY.find(([one]) => one === by)?.[1] ?? by}</th>
            <th className="use-number">GPU-hours</th>
            <th className="use-number">Goodput</th>
            <th className="wide-only" style={{ width: "30%" }}>
              Time
            </th>
            <th className="use-number">Cost</th>
            <th className="use-number wide-only">Carbon</th>
            {hasQuota && <th className="use-number">Of quota</th>}
          </tr>
        </thead>
        <tbody>
          {report.groups.slice(0, MOST_ROWS).map((one) => (
            <tr key={one.key[by] ?? ""}>
              <td className="clip">
                <Name group={one} by={by} />
              </td>
              <td className="use-number">{hours(one.gpu_hours)}</td>
              <td className="use-number">{percent(one.goodput)}</td>
              <td className="wide-only">
                <Bar classes={one.classes} />
              </td>
              <td className="use-number">{money(one.cost, report.currency)}</td>
              <td className="use-number wide-only">{hours(one.carbon_kg)} kg</td>
              {hasQuota && <td className="use-number">{percent(one.quota_ratio)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {report.groups.length > MOST_ROWS && (
        <p className="muted use-pad">The first {MOST_ROWS} of {report.groups.length}; the CSV has all.</p>
      )}
    </section>
  );
}

function Name({ group, by }: { group: UsageGroup; by: string }): ReactElement {
  const key = group.key[by] ?? "";
  if (by === "job" && key !== "") {
    return (
      <Link to="/app/jobs/$jobId" params={{ jobId: key }} search={{}}>
        <b>{group.name === "" ? key : group.name}</b>
      </Link>
    );
  }
  return <b>{key === "" ? "—" : key}</b>;
}

function Losses({ report }: { report: UsageReport }): ReactNode {
  if (report.losses.length === 0) {
    return null;
  }
  return (
    <section className="card">
      <div className="card-head">
        <h2>What cost most and brought nothing</h2>
      </div>
      <table className="plain">
        <tbody>
          {report.losses.slice(0, 10).map((one) => (
            <tr key={`${one.kind} ${one.cause}`}>
              <td>
                {wordOf(one.kind)}
                {one.cause !== "" && <span className="muted"> after {one.cause.replace(/_/g, " ")}</span>}
              </td>
              <td className="use-number">{hours(one.gpu_hours)} GPU-hours</td>
              <td className="use-number">{money(one.cost, report.currency)}</td>
              <td className="clip">
                {one.job !== "" && (
                  <Link to="/app/jobs/$jobId" params={{ jobId: one.job }} search={{}}>
                    {one.job_name === "" ? one.job : one.job_name}
                  </Link>
                )}
                {one.jobs > 1 && <span className="muted"> and {one.jobs - 1} more</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const BUDGET_WORDS: Record<string, string> = { ok: "within it", warned: "nearly used", exhausted: "used up" };
const BUDGET_TONES: Record<string, string> = { ok: "tone-green", warned: "tone-amber", exhausted: "tone-red" };

function Budgets(): ReactNode {
  const budgets = useQuery(budgetsQuery());
  if (budgets.data === undefined || budgets.data.budgets.length === 0) {
    return null;
  }
  return (
    <section className="card">
      <div className="card-head">
        <h2>Budgets</h2>
      </div>
      <table className="plain">
        <tbody>
          {budgets.data.budgets.map((one) => (
            <tr key={one.team}>
              <td>
                <b>{one.team}</b>
              </td>
              <td>
                <meter min={0} max={1} low={one.warn_at} high={0.999} optimum={0} value={Math.min(1, one.used_ratio)}>
                  {percent(one.used_ratio)}
                </meter>{" "}
                {percent(one.used_ratio)}
              </td>
              <td className="muted">{amounts(one)}</td>
              <td className={`state ${BUDGET_TONES[one.state] ?? ""}`}>
                <Icon name={one.state === "ok" ? "tick" : "warn"} />
                {BUDGET_WORDS[one.state] ?? one.state}
                {one.state === "exhausted" && one.hold && ": new jobs wait"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function amounts(one: Budget): string {
  const found = [];
  if (one.gpu_hours !== null) {
    found.push(`${hours(one.used_gpu_hours)} of ${hours(one.gpu_hours)} GPU-hours`);
  }
  if (one.cost !== null) {
    found.push(`${hours(one.used_cost)} of ${hours(one.cost)} spent`);
  }
  return `${found.join(", ")} in ${one.month}`;
}
