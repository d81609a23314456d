/** Samples of a version: pictures and sounds as such, tables and texts by their beginning. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, type ReactElement } from "react";

import { fileAddress, lookQuery, samplesQuery, type DataFile, type DataLook, type DataVersion } from "../../api/data";
import { bytes } from "../../lib/format";
import { ErrorCard, Skeleton } from "../../ui/parts";
import "../../features/artifacts/artifacts.css";

const Parquet = lazy(async () => ({ default: (await import("../../features/artifacts/parquet")).ParquetOfData }));
/** The largest Parquet file that is opened: a browser needs all of it. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Tables and texts that are opened at once. */
const MOST_OPEN = 12;

export function Samples(props: { version: DataVersion; ofClass: string; onClass: (name: string) => void }): ReactElement {
  const { version, ofClass } = props;
  const found = useQuery(samplesQuery(version.name, version.version, ofClass));
  const names = [...new Set(Object.values(version.classes).flatMap((counts) => Object.keys(counts)))].sort();
  const media = (found.data ?? []).filter((file) => file.kind === "image" || file.kind === "audio");
  const texts = (found.data ?? []).filter((file) => file.kind === "table" || file.kind === "text").slice(0, MOST_OPEN);
  return (
    <section className="card" aria-label="Samples">
      <div className="card-head">
        <h2>Samples</h2>
        {names.length > 0 && (
          <select className="field" aria-label="Class" value={ofClass} onChange={(event) => props.onClass(event.target.value)}>
            <option value="">All classes</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </div>
      {found.error !== null && <ErrorCard title="The samples could not be read" error={found.error} retry={() => void found.refetch()} />}
      {found.data === undefined && found.error === null && <Skeleton />}
      {found.data?.length === 0 && <p className="muted" style={{ padding: 12 }}>No file of this version can be shown here.</p>}
      <div className="samples">
        {media.map((file) => (
          <Media key={file.path} version={version} file={file} />
        ))}
        {texts.map((file) => {
          const View = file.path.toLowerCase().endsWith(".parquet") ? Rows : Beginning;
          return <View key={file.path} version={version} file={file} />;
        })}
      </div>
    </section>
  );
}

function Caption({ file }: { file: DataFile }): ReactElement {
  return (
    <figcaption className="muted" title={`${file.path}, ${bytes(file.size_bytes)}`}>
      {file.path.split("/").slice(-2).join("/")}
    </figcaption>
  );
}

function Media({ version, file }: { version: DataVersion; file: DataFile }): ReactElement {
  const address = fileAddress(version.name, version.version, file.path);
  return (
    <figure className="sample">
      {file.kind === "image" ? (
        <a href={address} target="_blank" rel="noreferrer">
          <img src={address} alt={file.path} loading="lazy" />
        </a>
      ) : (
        // oxlint-disable-next-line jsx-a11y/media-has-caption -- sounds of a data set have no captions
        <audio controls preload="none" src={address} aria-label={file.path} />
      )}
      <Caption file={file} />
    </figure>
  );
}

function Beginning({ version, file }: { version: DataVersion; file: DataFile }): ReactElement {
  const look = useQuery(lookQuery(version.name, version.version, file.path));
  return (
    <figure className="sample wide">
      <Caption file={file} />
      <div className="scroll">
        {look.error !== null && <ErrorCard title="The file could not be read" error={look.error} />}
        {look.data !== undefined && <Look look={look.data} />}
      </div>
    </figure>
  );
}

function Rows({ version, file }: { version: DataVersion; file: DataFile }): ReactElement {
  return (
    <figure className="sample wide">
      <Caption file={file} />
      {file.size_bytes > MOST_BYTES ? (
        <p className="muted">It has {bytes(file.size_bytes)}, which is too much for a page. `yard data get` fetches it.</p>
      ) : (
        <Suspense fallback={<Skeleton />}>
          <Parquet version={version} path={file.path} />
        </Suspense>
      )}
    </figure>
  );
}

function Look({ look }: { look: DataLook }): ReactElement {
  if (look.kind !== "table") {
    return <pre>{look.text + (look.is_cut ? "\n…" : "")}</pre>;
  }
  return (
    <table className="plain">
      <thead>
        <tr>
          {look.columns.map((name, at) => (
            <th key={at}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {look.rows.map((row, at) => (
          <tr key={at}>
            {row.map((cell, column) => (
              <td key={column}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
