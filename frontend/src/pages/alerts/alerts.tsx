/** Alerts: what is wrong now, the rules that watch, where they tell it, and what was sent. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { incidentsQuery, messagesQuery } from "../../api/alerts";
import { IncidentList } from "../../features/alerts/incident-list";
import { Ago, ErrorCard, PageHead, Segments, Skeleton, YardLine } from "../../ui/parts";
import { Channels } from "./channels";
import { Rules } from "./rules";
import "./alerts.css";

const TABS = [
  ["", "Incidents"],
  ["rules", "Rules"],
  ["channels", "Channels"],
  ["messages", "Messages"],
] as const;

const TONES: Record<string, string> = { delivered: "green", failed: "red" };

export function AlertsPage(): ReactElement {
  const search = useSearch({ from: "/app/alerts" });
  const navigate = useNavigate();
  const tab = TABS.find(([one]) => one === search.tab)?.[0] ?? "";
  return (
    <>
      <PageHead title="Alerts" facts={<span>who is told when something goes wrong</span>}>
        <Segments
          label="Part of alerts"
          value={tab}
          options={TABS}
          onChange={(next) =>
            void navigate({ to: "/app/alerts", search: next === "" ? {} : { tab: next }, replace: true })
          }
        />
      </PageHead>
      <div className="page-body">
        {tab === "" && <Incidents />}
        {tab === "rules" && <Rules />}
        {tab === "channels" && <Channels />}
        {tab === "messages" && <Messages />}
      </div>
    </>
  );
}

function Incidents(): ReactElement {
  const { data, error, refetch } = useQuery(incidentsQuery());
  if (data === undefined) {
    return error === null ? (
      <Skeleton />
    ) : (
      <ErrorCard title="The incidents could not be read" error={error} retry={() => void refetch()} />
    );
  }
  const open = data.filter((one) => one.state !== "resolved");
  const over = data.filter((one) => one.state === "resolved");
  return (
    <>
      <section className="card">
        <div className="card-head">
          <h2>Open {open.length > 0 && <span className="faint">{open.length}</span>}</h2>
        </div>
        {open.length === 0 ? (
          <p className="muted card-text">Nothing is wrong now, as far as the rules can tell.</p>
        ) : (
          <IncidentList incidents={open} />
        )}
      </section>
      {over.length > 0 && (
        <section className="card">
          <div className="card-head">
            <h2>Resolved</h2>
          </div>
          <IncidentList incidents={over.slice(0, 100)} />
        </section>
      )}
      <YardLine line="yard alert list --all" />
    </>
  );
}

function Messages(): ReactElement {
  const { data, error, refetch } = useQuery(messagesQuery());
  if (data === undefined) {
    return error === null ? (
      <Skeleton />
    ) : (
      <ErrorCard title="The messages could not be read" error={error} retry={() => void refetch()} />
    );
  }
  return (
    <>
      <section className="card">
        {data.length === 0 ? (
          <p className="muted card-text">Nothing was sent yet.</p>
        ) : (
          <table className="plain">
            <thead>
              <tr>
                <th>When</th>
                <th>Channel</th>
                <th>What</th>
                <th>State</th>
                <th>Tries</th>
                <th>Error</th>
              </tr>
            </thead>
            <tbody>
              {data.map((one) => (
                <tr key={one.id}>
                  <td>
                    <Ago ms={one.created_ms} />
                  </td>
                  <td>{one.channel}</td>
                  <td>{one.what}</td>
                  <td>
                    <span className={`state tone-${TONES[one.state] ?? "amber"}`}>{one.state}</span>
                  </td>
                  <td>{one.tries}</td>
                  <td className="faint">{one.error}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      <YardLine line="yard alert log" />
    </>
  );
}
