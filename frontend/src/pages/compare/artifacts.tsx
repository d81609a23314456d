/** The same file of several runs: texts as a diff, anything else side by side. */
import { useQueries } from "@tanstack/react-query";
import { useMemo, useState, type ReactElement } from "react";

import { textQuery, filesQuery } from "../../api/artifacts";
import type { WholeRun } from "../../api/runs";
import { FileView, pretty } from "../../features/artifacts/file-view";
import "../../features/artifacts/artifacts.css";
import { TextDiff } from "../../features/diff/text-diff";
import { viewerOf } from "../../lib/files";
import { ErrorCard } from "../../ui/parts";

interface Props {
  runs: readonly WholeRun[];
  path: string;
  onPath: (path: string) => void;
}

const DEPTH = 3;

/** Every file of the compared runs, a few folders deep. */
function useFiles(runs: readonly WholeRun[]): Map<string, { size: number; runs: Set<string> }> {
  const [folders, setFolders] = useState<readonly string[]>([""]);
  const listed = useQueries({ queries: runs.flatMap(({ run }) => folders.map((folder) => filesQuery(run.info.run_id, folder))) });
  const found = new Map<string, { size: number; runs: Set<string> }>();
  const next = new Set(folders);
  runs.forEach(({ run }, at) => {
    folders.forEach((_, place) => {
      for (const file of listed[at * folders.length + place]?.data ?? []) {
        if (file.is_dir) {
          if (file.path.split("/").length < DEPTH) {
            next.add(file.path);
          }
        } else {
          const held = found.get(file.path) ?? { size: 0, runs: new Set<string>() };
          held.size = Math.max(held.size, file.file_size ?? 0);
          held.runs.add(run.info.run_id);
          found.set(file.path, held);
        }
      }
    });
  });
  if (next.size > folders.length && next.size < 60) {
    queueMicrotask(() => setFolders([...next]));
  }
  return found;
}

export function CompareArtifacts({ runs, path, onPath }: Props): ReactElement {
  const files = useFiles(runs);
  const paths = [...files.keys()].sort();
  const chosen = files.has(path) ? path : (paths.find((one) => viewerOf(one) === "text") ?? paths[0]);
  if (chosen === undefined) {
    return <p className="empty muted">None of these runs has artifacts.</p>;
  }
  const holders = runs.filter(({ run }) => files.get(chosen)?.runs.has(run.info.run_id) === true);
  const viewer = viewerOf(chosen);
  const isText = viewer === "text" || viewer === "json" || viewer === "markdown";
  return (
    <div className="page-body">
      <div className="row wrap">
        <label className="row">
          File
          <select className="field" value={chosen} onChange={(event) => onPath(event.target.value)}>
            {paths.map((one) => (
              <option key={one} value={one}>
                {one} ({files.get(one)?.runs.size} of {runs.length})
              </option>
            ))}
          </select>
        </label>
      </div>
      {isText && holders.length >= 2 ? (
        <Diffs runs={holders} path={chosen} />
      ) : (
        <div className="side-by-side">
          {holders.map(({ run }) => (
            <section key={run.info.run_id} className="stack" style={{ gap: 6 }}>
              <b>{run.info.run_name}</b>
              <FileView run={run.info.run_id} artifactUri={run.info.artifact_uri} path={chosen} size={files.get(chosen)?.size ?? 0} />
            </section>
          ))}
        </div>
      )}
    </div>
  );
}

function Diffs({ runs, path }: { runs: readonly WholeRun[]; path: string }): ReactElement {
  const [left, setLeft] = useState(0);
  const [right, setRight] = useState(1);
  const texts = useQueries({ queries: runs.map(({ run }) => textQuery(run.info.artifact_uri, path)) });
  const fault = texts.find((one) => one.error !== null)?.error ?? null;
  const isJson = viewerOf(path) === "json";
  const read = (at: number): string | undefined => {
    const found = texts[at]?.data;
    return found === undefined ? undefined : isJson ? pretty(found.text, found.cut) : found.text;
  };
  const [a, b] = [read(left), read(right)];
  const names = useMemo(() => runs.map(({ run }) => run.info.run_name), [runs]);
  const choice = (label: string, value: number, set: (at: number) => void): ReactElement => (
    <select className="field" aria-label={label} value={value} onChange={(event) => set(Number(event.target.value))}>
      {names.map((name, at) => (
        <option key={runs[at]?.run.info.run_id} value={at}>
          {name}
        </option>
      ))}
    </select>
  );
  return (
    <>
      <div className="row">
        {choice("Left run", left, setLeft)} <span className="muted">against</span> {choice("Right run", right, setRight)}
      </div>
      {fault !== null && <ErrorCard title="A file could not be read" error={fault} />}
      {a !== undefined && b !== undefined && <TextDiff left={a} right={b} />}
    </>
  );
}
