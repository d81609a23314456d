/** Tables of the comparison: parameters, metrics with differences, environments. */
import { useQueries } from "@tanstack/react-query";
import { useMemo, useState, type ReactElement, type ReactNode } from "react";

import { textQuery } from "../../api/artifacts";
import type { WholeRun } from "../../api/runs";
import { coloursOf } from "../../lib/colour";
import { compareMaps, standOut, type Row } from "../../lib/diff";
import { exact, full, short, signed } from "../../lib/format";
import { isSystem } from "../../lib/metric-names";
import { tagMap } from "../../lib/run-facts";
import { better } from "../../lib/scores";

function Heads({ runs }: { runs: readonly WholeRun[] }): ReactElement {
  const paint = coloursOf(runs.map(({ run }) => run.info.run_id));
  return (
    <thead>
      <tr>
        <th aria-label="Name" />
        {runs.map(({ run }) => (
          <th key={run.info.run_id}>
            <span className="row" style={{ gap: 5 }}>
              <span className="dot" style={{ background: paint.get(run.info.run_id) }} />
              {run.info.run_name}
            </span>
          </th>
        ))}
      </tr>
    </thead>
  );
}

const odd = (row: Row): boolean[] => standOut(row.values);

function Rows({ runs, rows }: { runs: readonly WholeRun[]; rows: readonly Row[] }): ReactElement {
  return (
    <section className="card compare-table">
      <table className="plain">
        <Heads runs={runs} />
        <tbody>
          {rows.map((row) => (
            <tr key={row.key} className={row.differs ? "differs" : ""}>
              <td className="muted">
                {row.key}
                {row.differs && <span className="hidden-text"> differs</span>}
              </td>
              {row.values.map((value, at) => (
                <td key={runs[at]?.run.info.run_id} className={row.differs && odd(row)[at] === true ? "odd" : ""}>
                  {value ?? <span className="faint">—</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p className="faint" style={{ padding: 12 }}>Nothing differs.</p>}
    </section>
  );
}

export function CompareParams({ runs, onlyDifferent, onChange }: { runs: readonly WholeRun[]; onlyDifferent: boolean; onChange: (only: boolean) => void }): ReactElement {
  const rows = useMemo(() => compareMaps(runs.map(({ run }) => tagMap(run.data.params))), [runs]);
  const differing = rows.filter((row) => row.differs);
  return (
    <div className="page-body">
      <OnlyDifferent on={onlyDifferent} onChange={onChange} text={`${differing.length} of ${rows.length} parameters differ`} />
      <Rows runs={runs} rows={onlyDifferent ? differing : rows} />
    </div>
  );
}

function OnlyDifferent({ on, onChange, text }: { on: boolean; onChange: (on: boolean) => void; text: string }): ReactElement {
  return (
    <label className="row">
      <input type="checkbox" checked={on} onChange={(event) => onChange(event.target.checked)} />
      Only what differs
      <span className="faint">{text}</span>
    </label>
  );
}

type Stat = "last" | "min" | "max";

export function CompareMetrics({ runs }: { runs: readonly WholeRun[] }): ReactElement {
  const [stat, setStat] = useState<Stat>("last");
  const [machine, setMachine] = useState(false);
  const rows = useMemo(() => {
    const maps = runs.map((one) => new Map(one.metrics.map((metric) => [metric.key, metric[stat]])));
    const names = [...new Set(runs.flatMap((one) => one.metrics.map((metric) => metric.key)))].filter((name) => machine || !isSystem(name)).sort();
    return names.map((name) => ({ name, values: maps.map((map) => map.get(name) ?? null) }));
  }, [runs, stat, machine]);
  return (
    <div className="page-body">
      <div className="row wrap">
        <label className="row">
          Value
          <select className="field" value={stat} onChange={(event) => setStat(event.target.value as Stat)}>
            <option value="last">last</option>
            <option value="min">min</option>
            <option value="max">max</option>
          </select>
        </label>
        <label className="row">
          <input type="checkbox" checked={machine} onChange={(event) => setMachine(event.target.checked)} />
          System metrics too
        </label>
        <span className="faint">Differences are to the first run; the best is bold.</span>
      </div>
      <section className="card compare-table">
        <table className="plain">
          <Heads runs={runs} />
          <tbody>
            {rows.map(({ name, values }) => (
              <tr key={name}>
                <td className="muted">{name}</td>
                {values.map((value, at) => (
                  <MetricCell key={runs[at]?.run.info.run_id} name={name} value={value} values={values} isFirst={at === 0} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}

function MetricCell({ name, value, values, isFirst }: { name: string; value: number | string | null; values: readonly (number | string | null)[]; isFirst: boolean }): ReactNode {
  const numbers = values.filter((one): one is number => typeof one === "number");
  const way = better(name);
  const best = way < 0 ? Math.min(...numbers) : Math.max(...numbers);
  const first = values[0];
  const delta = !isFirst && typeof value === "number" && typeof first === "number" ? value - first : null;
  return (
    <td className={way !== 0 && value === best && numbers.length > 1 ? "best" : ""} title={full(value)}>
      {short(value)} {delta !== null && <span className="faint">{signed(delta)}</span>}
    </td>
  );
}

const FACTS: readonly [string, (whole: WholeRun) => string | null][] = [
  ["experiment", (whole) => whole.experiment_name],
  ["user", ({ run }) => run.info.user_id],
  ["started", ({ run }) => exact(run.info.start_time)],
  ["source", ({ run }) => tagMap(run.data.tags).get("mlflow.source.name") ?? null],
  ["git commit", ({ run }) => tagMap(run.data.tags).get("mlflow.source.git.commit") ?? null],
  ["git branch", ({ run }) => tagMap(run.data.tags).get("mlflow.source.git.branch") ?? null],
];

const ENVIRONMENT = ["model/requirements.txt", "model/python_env.yaml"];

/** Packages of a requirements file as pairs: name, version. */
export function packages(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of text.split("\n")) {
    const match = /^\s*(?:-\s*)?([A-Za-z0-9_.-]+)\s*(?:==|:|>=|~=)?\s*([^\s#;]*)/.exec(line);
    if (match?.[1] !== undefined && match[2] !== undefined && match[2] !== "" && !line.trim().startsWith("#")) {
      found.set(match[1].toLowerCase(), match[2]);
    }
  }
  return found;
}

export function CompareEnvironment({ runs }: { runs: readonly WholeRun[] }): ReactElement {
  const [only, setOnly] = useState(true);
  const texts = useQueries({
    queries: runs.flatMap(({ run }) => ENVIRONMENT.map((path) => ({ ...textQuery(run.info.artifact_uri, path), retry: false, meta: { quiet: true } }))),
  });
  const facts = compareMaps(runs.map((whole) => new Map(FACTS.flatMap(([name, read]) => (read(whole) === null ? [] : [[name, read(whole) ?? ""] as const])))));
  const key = texts.map((one) => one.dataUpdatedAt).join();
  const rows = useMemo(
    () => compareMaps(runs.map((_, at) => packages(ENVIRONMENT.map((__, file) => texts[at * ENVIRONMENT.length + file]?.data?.text ?? "").join("\n")))),
    // oxlint-disable-next-line react/exhaustive-deps -- the key says when any of the files came
    [key, runs],
  );
  const differing = rows.filter((row) => row.differs);
  return (
    <div className="page-body">
      <h2>Source</h2>
      <Rows runs={runs} rows={facts} />
      <h2>Packages</h2>
      {rows.length === 0 ? (
        <p className="muted">
          None of these runs kept a <code>model/requirements.txt</code>; logging a model does.
        </p>
      ) : (
        <>
          <OnlyDifferent on={only} onChange={setOnly} text={`${differing.length} of ${rows.length} packages differ`} />
          <Rows runs={runs} rows={only ? differing : rows} />
        </>
      )}
    </div>
  );
}
