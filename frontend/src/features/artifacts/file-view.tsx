/** One file, shown by the viewer that fits it. Heavy viewers are loaded when they are first needed. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, type ReactElement } from "react";

import { previewAddress, textQuery } from "../../api/artifacts";
import { parseCsv } from "../../lib/csv";
import { viewerOf } from "../../lib/files";
import { bytes } from "../../lib/format";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { Markdown } from "../markdown/markdown";
import { Lines } from "./lines";
import { ValueTable } from "./value-table";

const Parquet = lazy(() => import("./parquet"));

interface Props {
  run: string;
  artifactUri: string;
  path: string;
  size: number;
}

/** Above this a file is offered for download only. */
const MOST_BINARY = 50_000_000;

export function FileView(props: Props): ReactElement {
  const { run, path, size } = props;
  const viewer = viewerOf(path);
  const source = previewAddress(run, path);
  switch (viewer) {
    case "image":
      return (
        <div className="file-image">
          <img src={source} alt={path} />
        </div>
      );
    case "audio":
      // oxlint-disable-next-line jsx-a11y/media-has-caption -- what a run recorded has no captions
      return <audio className="file-media" controls src={source} />;
    case "video":
      // oxlint-disable-next-line jsx-a11y/media-has-caption -- what a run recorded has no captions
      return <video className="file-media" controls src={source} />;
    case "html":
      // Its own scripts run, without an origin: no cookie, no store, no request (the answer's policy says so, too).
      return <iframe className="file-frame" title={path} sandbox="allow-scripts" src={source} />;
    case "pdf":
      return <p className="muted" style={{ padding: 12 }}>PDF files cannot be previewed safely in the browser. Download the file to view it.</p>;
    case "parquet":
      return size > MOST_BINARY ? (
        <TooLarge size={size} />
      ) : (
        <Suspense fallback={<Skeleton />}>
          <Parquet {...props} />
        </Suspense>
      );
    case "none":
      return <p className="muted" style={{ padding: 12 }}>This type of file cannot be previewed. Download it to view it.</p>;
    default:
      return <TextFile {...props} viewer={viewer} />;
  }
}

function TooLarge({ size }: { size: number }): ReactElement {
  return <p className="muted" style={{ padding: 12 }}>{bytes(size)} are too much for a page. Download the file to look at it.</p>;
}

function TextFile({ artifactUri, path, viewer }: Props & { viewer: string }): ReactElement {
  const { data, error, refetch } = useQuery(textQuery(artifactUri, path));
  if (error !== null) {
    return <ErrorCard title="The file could not be read" error={error} retry={() => void refetch()} />;
  }
  if (data === undefined) {
    return <Skeleton />;
  }
  const cut = data.cut ? <p className="note-box">Only the beginning is shown. Download the file for the rest.</p> : null;
  return (
    <>
      {cut}
      {viewer === "markdown" ? (
        <div className="file-text">
          <Markdown text={data.text} />
        </div>
      ) : viewer === "table" ? (
        <CsvTable text={data.text} separator={path.endsWith(".tsv") ? "\t" : ","} />
      ) : (
        <Lines text={viewer === "json" ? pretty(data.text, data.cut) : data.text} />
      )}
    </>
  );
}

/** JSON with its levels indented; anything else as it is. */
export function pretty(text: string, cut: boolean): string {
  if (cut) {
    return text;
  }
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function CsvTable({ text, separator }: { text: string; separator: string }): ReactElement {
  const [head = [], ...rows] = parseCsv(text, separator, 50_001);
  return <ValueTable head={head} rows={rows} />;
}
