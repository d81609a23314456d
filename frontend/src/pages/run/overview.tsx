/** What a run is: parameters, metrics, notes, tags, source, inputs. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactElement, type ReactNode } from "react";

import { deleteTag, setTag, TAGS, type WholeRun } from "../../api/runs";
import { Tags } from "../../features/actions/tags";
import { Note } from "../../features/markdown/note";
import { colourOf } from "../../lib/colour";
import { exact, full, grouped, short } from "../../lib/format";
import { isSystem } from "../../lib/metric-names";
import { sourceFacts } from "../../lib/run-facts";
import { matcher } from "../../lib/search";
import { yard } from "../../lib/yard-line";
import { Sparkline } from "../../features/table/sparkline";
import { Copy } from "../../ui/parts";

interface Props {
  whole: WholeRun;
  tags: ReadonlyMap<string, string>;
}

export function Overview({ whole, tags }: Props): ReactElement {
  const { info, data } = whole.run;
  const client = useQueryClient();
  const refresh = (): Promise<void> => client.invalidateQueries({ queryKey: ["run"] });
  return (
    <div className="page-body columns-2">
      <div className="stack">
        <MetricsCard whole={whole} />
        <ParamsCard params={data.params ?? []} />
      </div>
      <div className="stack">
        <Note
          text={tags.get(TAGS.note) ?? ""}
          onSave={(text) => (text === "" ? deleteTag(info.run_id, TAGS.note) : setTag(info.run_id, TAGS.note, text)).then(refresh)}
          line={(text) => yard.note(info.run_id, text)}
        />
        <section className="card" aria-label="About">
          <div className="card-head">
            <h2>About</h2>
          </div>
          <About whole={whole} tags={tags} />
        </section>
        <section className="card" aria-label="Tags">
          <div className="card-head">
            <h2>Tags</h2>
          </div>
          <div style={{ padding: 12 }}>
            <Tags
              tags={data.tags ?? []}
              onSet={(key, value) => setTag(info.run_id, key, value).then(refresh)}
              onRemove={(key) => deleteTag(info.run_id, key).then(refresh)}
              line={(key, value) => (value === null ? yard.untag([info.run_id], key) : yard.tag([info.run_id], key, value))}
            />
          </div>
        </section>
        <Inputs whole={whole} />
      </div>
    </div>
  );
}

function Card({ title, count, search, onSearch, children }: { title: string; count: number; search: string; onSearch: (text: string) => void; children: ReactNode }): ReactElement {
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        <span className="faint grow">{count}</span>
        {count > 8 && <input className="field" style={{ width: 150, height: 24 }} type="search" placeholder="Find" aria-label={`Find in ${title}`} value={search} onChange={(event) => onSearch(event.target.value)} />}
      </div>
      <div className="values-card">{children}</div>
    </section>
  );
}

function MetricsCard({ whole }: { whole: WholeRun }): ReactElement {
  const [search, setSearch] = useState("");
  const wanted = matcher(search);
  const own = whole.metrics.filter((metric) => !isSystem(metric.key));
  const colour = colourOf(whole.run.info.run_id);
  return (
    <Card title="Metrics" count={own.length} search={search} onSearch={setSearch}>
      {own.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>No metric was logged yet.</p>
      ) : (
        <table className="plain">
          <thead>
            <tr>
              <th>Name</th>
              <th className="wide-only">Curve</th>
              <th className="num">Last</th>
              <th className="num">Min</th>
              <th className="num">Max</th>
              <th className="num wide-only">Step</th>
            </tr>
          </thead>
          <tbody>
            {own.filter((metric) => wanted(metric.key)).map((metric) => (
              <tr key={metric.key}>
                <td className="clip" style={{ maxWidth: 200 }} title={metric.key}>
                  {metric.key}
                </td>
                <td className="wide-only">
                  <Sparkline run={whole.run.info.run_id} metric={metric.key} colour={colour} width={90} height={18} />
                </td>
                <td className="num" title={full(metric.last)}>
                  <b>{short(metric.last)}</b>
                </td>
                <td className="num" title={full(metric.min)}>
                  {short(metric.min)}
                </td>
                <td className="num" title={full(metric.max)}>
                  {short(metric.max)}
                </td>
                <td className="num muted wide-only">{grouped(metric.step)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function ParamsCard({ params }: { params: readonly { key: string; value: string }[] }): ReactElement {
  const [search, setSearch] = useState("");
  const wanted = matcher(search);
  return (
    <Card title="Parameters" count={params.length} search={search} onSearch={setSearch}>
      {params.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>No parameter was logged yet.</p>
      ) : (
        <table className="plain">
          <tbody>
            {params.filter((param) => wanted(`${param.key} ${param.value}`)).map((param) => (
              <tr key={param.key}>
                <td className="muted" style={{ width: "40%" }}>
                  {param.key}
                </td>
                <td style={{ overflowWrap: "anywhere" }}>{param.value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function About({ whole, tags }: Props): ReactElement {
  const { info } = whole.run;
  const source = sourceFacts(tags);
  const parent = tags.get("mlflow.parentRunId");
  return (
    <dl className="facts">
      <dt>Started</dt>
      <dd>{exact(info.start_time)}</dd>
      <dt>Ended</dt>
      <dd>{exact(info.end_time)}</dd>
      <dt>User</dt>
      <dd>{info.user_id}</dd>
      <dt>Source</dt>
      <dd>{source.name ?? "—"}</dd>
      <dt>Git commit</dt>
      <dd className="row" style={{ gap: 4 }}>
        {source.commit === null ? (
          "—"
        ) : (
          <>
            {source.link === null ? (
              <code>{source.commit.slice(0, 12)}</code>
            ) : (
              <a href={source.link} target="_blank" rel="noreferrer noopener">
                <code>{source.commit.slice(0, 12)}</code>
              </a>
            )}
            <Copy text={source.commit} label="Copy the commit" />
            {source.branch !== null && <span className="muted">on {source.branch}</span>}
          </>
        )}
      </dd>
      {parent !== undefined && (
        <>
          <dt>Part of</dt>
          <dd>
            <Link to="/app/runs/$runId" params={{ runId: parent }} search={{}}>
              {parent.slice(0, 8)}
            </Link>
          </dd>
        </>
      )}
      <dt>Artifacts</dt>
      <dd className="mono">{info.artifact_uri}</dd>
    </dl>
  );
}

function Inputs({ whole }: { whole: WholeRun }): ReactElement | null {
  const sets = whole.run.inputs?.dataset_inputs ?? [];
  if (sets.length === 0) {
    return null;
  }
  return (
    <section className="card" aria-label="Inputs">
      <div className="card-head">
        <h2>Inputs</h2>
      </div>
      <table className="plain">
        <thead>
          <tr>
            <th>Data set</th>
            <th>Digest</th>
            <th>Used for</th>
            <th>Source</th>
          </tr>
        </thead>
        <tbody>
          {sets.map(({ dataset, tags }) => (
            <tr key={`${dataset.name}-${dataset.digest}`}>
              <td>{dataset.name}</td>
              <td>
                <code>{dataset.digest}</code>
              </td>
              <td>{tags?.find((tag) => tag.key === "mlflow.data.context")?.value ?? "—"}</td>
              <td className="mono" style={{ overflowWrap: "anywhere" }}>
                {dataset.source ?? "—"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
