/** Data sets of the team: find one, see its newest version. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { dataQuery, type DataSummary } from "../../api/data";
import { bytes, count, grouped } from "../../lib/format";
import { matcher } from "../../lib/search";
import { yard } from "../../lib/yard-line";
import { Ago, ErrorCard, PageHead, Skeleton, YardLine } from "../../ui/parts";

export function DataPage(): ReactElement {
  const search = useSearch({ from: "/app/data" });
  const navigate = useNavigate();
  const data = useQuery(dataQuery());
  const text = search.q ?? "";
  const shown = useMemo(() => {
    const wanted = matcher(text);
    return (data.data ?? []).filter(({ newest }) => wanted(`${newest.name} ${newest.source} ${newest.user}`));
  }, [data.data, text]);
  return (
    <>
      <PageHead title="Data" facts={<span>{data.data === undefined ? "" : count(shown.length, "data set")}</span>}>
        <input
          className="field"
          type="search"
          data-filter
          placeholder="Find a data set"
          aria-label="Find a data set"
          value={text}
          onChange={(event) => void navigate({ to: "/app/data", search: { q: event.target.value }, replace: true })}
        />
      </PageHead>
      <div className="page-body">
        {data.error !== null && (
          <ErrorCard title="The data sets could not be read" error={data.error} retry={() => void data.refetch()} />
        )}
        {data.data === undefined && data.error === null && <Skeleton />}
        {data.data !== undefined && (data.data.length === 0 ? <NoData /> : <List shown={shown} />)}
        <YardLine line={yard.data("list")} />
      </div>
    </>
  );
}

function NoData(): ReactElement {
  return (
    <div className="empty">
      <h2>No data set yet</h2>
      <p className="muted">Store a folder as a version, then name it when you submit a job:</p>
      <pre>{"yard data add food11 ./Food-11\nyard submit --data food11 -- python train.py"}</pre>
    </div>
  );
}

function List({ shown }: { shown: readonly DataSummary[] }): ReactElement {
  return (
    <section className="card">
      <table className="plain">
        <thead>
          <tr>
            <th>Name</th>
            <th>Newest</th>
            <th>Files</th>
            <th>Size</th>
            <th className="wide-only">Layout</th>
            <th className="wide-only">Versions</th>
            <th className="wide-only">By</th>
            <th>Added</th>
            <th>Used</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ newest, versions }) => (
            <tr key={newest.name}>
              <td>
                <Link to="/app/data/$name" params={{ name: newest.name }} search={{}}>
                  <b>{newest.name}</b>
                </Link>
              </td>
              <td>v{newest.version}</td>
              <td>{grouped(newest.files)}</td>
              <td className="nowrap">{bytes(newest.size_bytes)}</td>
              <td className="wide-only">{newest.layout}</td>
              <td className="wide-only">{versions}</td>
              <td className="wide-only">{newest.user}</td>
              <td className="muted nowrap">
                <Ago ms={newest.created_ms} />
              </td>
              <td className="muted nowrap">
                <Ago ms={newest.used_ms} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
