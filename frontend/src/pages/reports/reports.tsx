/** Reports: the pages that the team writes about its runs. */
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState, type ReactElement } from "react";

import { createReport, reportsQuery } from "../../api/reports";
import { experimentsQuery, namesQuery } from "../../api/runs";
import { count } from "../../lib/format";
import { templateFor } from "../../lib/report";
import { matcher } from "../../lib/search";
import { Icon } from "../../ui/icon";
import { Ago, ErrorCard, PageHead, Skeleton } from "../../ui/parts";
import { complain } from "../../ui/toast";

/** A text to begin with, about the experiment with the latest run. */
async function firstText(client: QueryClient): Promise<string> {
  const experiments = await client.fetchQuery(experimentsQuery());
  const latest = experiments.filter((one) => one.runs > 0).sort((a, b) => (b.last_start_ms ?? 0) - (a.last_start_ms ?? 0))[0];
  const names = latest === undefined ? undefined : await client.fetchQuery(namesQuery([latest.experiment_id]));
  const metrics = (names?.metrics ?? []).filter((name) => !name.startsWith("system/"));
  return templateFor(metrics.find((name) => name.includes("loss")) ?? metrics[0] ?? "loss", latest?.name ?? "Default");
}

export function ReportsPage(): ReactElement {
  const search = useSearch({ from: "/app/reports" });
  const navigate = useNavigate();
  const found = useQuery(reportsQuery());
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const text = search.q ?? "";
  const shown = useMemo(() => {
    const wanted = matcher(text);
    return (found.data ?? []).filter((one) => wanted(`${one.title} ${one.user_name} ${one.changed_by}`));
  }, [found.data, text]);
  const create = async (): Promise<void> => {
    setBusy(true);
    try {
      const made = await createReport("Untitled report", await firstText(client));
      void navigate({ to: "/app/reports/$reportId", params: { reportId: made.report_id }, search: { edit: "1" } });
    } catch (cause) {
      complain("The report was not created", cause);
      setBusy(false);
    }
  };
  const button = (
    <button type="button" className="btn primary" disabled={busy} onClick={() => void create()}>
      <Icon name="plus" />
      New report
    </button>
  );
  return (
    <>
      <PageHead title="Reports" facts={<span>{found.data === undefined ? "" : count(shown.length, "report")}</span>}>
        <input
          className="field"
          type="search"
          data-filter
          placeholder="Find by title or author"
          aria-label="Find a report by title or author"
          value={text}
          onChange={(event) => void navigate({ to: "/app/reports", search: event.target.value === "" ? {} : { q: event.target.value }, replace: true })}
        />
        {button}
      </PageHead>
      <div className="page-body">
        {found.error !== null && <ErrorCard title="The reports could not be read" error={found.error} retry={() => void found.refetch()} />}
        {found.data === undefined ? (
          found.error === null && <Skeleton />
        ) : found.data.length === 0 ? (
          <div className="empty">
            <h2>No reports yet</h2>
            <p className="muted">A report is a page of Markdown with live charts and tables of runs in it. Everyone in the team can read it, and it can be saved as HTML or PDF.</p>
            <div>{button}</div>
          </div>
        ) : (
          <section className="card">
            <table className="plain">
              <thead>
                <tr>
                  <th>Title</th>
                  <th>Author</th>
                  <th>Last change</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((one) => (
                  <tr key={one.report_id}>
                    <td>
                      <Link to="/app/reports/$reportId" params={{ reportId: one.report_id }} search={{}}>
                        <b>{one.title}</b>
                      </Link>
                    </td>
                    <td>{one.user_name}</td>
                    <td className="muted">
                      <Ago ms={one.changed_ms} />
                      {one.changed_by !== one.user_name && ` by ${one.changed_by}`}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
      </div>
    </>
  );
}
