/** Registered models: find one, see where its aliases point. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { modelsQuery } from "../../api/models";
import { count } from "../../lib/format";
import { plain } from "../../lib/markdown";
import { matcher } from "../../lib/search";
import { yard } from "../../lib/yard-line";
import { Ago, ErrorCard, PageHead, Skeleton, YardLine } from "../../ui/parts";

export function ModelsPage(): ReactElement {
  const search = useSearch({ from: "/app/models" });
  const navigate = useNavigate();
  const models = useQuery(modelsQuery());
  const text = search.q ?? "";
  const shown = useMemo(() => {
    const wanted = matcher(text);
    return (models.data ?? []).filter((model) => wanted([model.name, ...(model.tags ?? []).map((tag) => `${tag.key}=${tag.value}`)].join(" ")));
  }, [models.data, text]);
  return (
    <>
      <PageHead title="Models" facts={<span>{models.data === undefined ? "" : count(shown.length, "model")}</span>}>
        <input
          className="field"
          type="search"
          data-filter
          placeholder="Find a model or tag"
          aria-label="Find a model or tag"
          value={text}
          onChange={(event) => void navigate({ to: "/app/models", search: { q: event.target.value }, replace: true })}
        />
      </PageHead>
      <div className="page-body">
        {models.error !== null && <ErrorCard title="The models could not be read" error={models.error} retry={() => void models.refetch()} />}
        {models.data === undefined ? (
          models.error === null && <Skeleton />
        ) : models.data.length === 0 ? (
          <div className="empty">
            <h2>No model is registered yet</h2>
            <p className="muted">Open a run, choose its model among the artifacts, and register it; or from a script:</p>
            <pre>{`mlflow.register_model("runs:/RUN_ID/model", "NAME")`}</pre>
          </div>
        ) : (
          <section className="card">
            <table className="plain">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Latest</th>
                  <th>Aliases</th>
                  <th className="wide-only">Tags</th>
                  <th className="wide-only">Description</th>
                  <th>Changed</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((model) => (
                  <tr key={model.name}>
                    <td>
                      <Link to="/app/models/$name" params={{ name: model.name }} search={{}}>
                        <b>{model.name}</b>
                      </Link>
                    </td>
                    <td>{latest(model.latest_versions ?? [])}</td>
                    <td>
                      {model.aliases?.map(({ alias, version }) => (
                        <span key={alias} className="chip accent" style={{ marginRight: 4 }}>
                          @{alias} v{version}
                        </span>
                      ))}
                    </td>
                    <td className="wide-only">
                      {model.tags?.map((tag) => (
                        <span key={tag.key} className="chip" style={{ marginRight: 4 }}>
                          <span className="muted">{tag.key}</span> {tag.value}
                        </span>
                      ))}
                    </td>
                    <td className="muted wide-only clip" style={{ maxWidth: 320 }}>
                      {plain(model.description ?? "")}
                    </td>
                    <td className="muted nowrap">
                      <Ago ms={model.last_updated_timestamp} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
        <YardLine line={yard.models()} />
      </div>
    </>
  );
}

/** The greatest version number among the latest of each stage. */
export function latest(versions: readonly { version: string }[]): string {
  const most = Math.max(0, ...versions.map((one) => Number(one.version)));
  return most === 0 ? "—" : `v${most}`;
}
